"""YAML to a typed plan and model: schema, units, loading, located faults. Executes nothing.

Public: `types` (what loading gives; imports nothing heavy), `loading` (``load_plan``, ``load_plan_text``,
``load_model``), `schema` (``plan_schema``, ``model_schema``), `placeholders` (``substitute``,
``spell_level``), `measurements` (``MEASUREMENTS``), `law_kinds` (``Link``, ``Noise``, ``Method``, ``Bounds``).
"""
