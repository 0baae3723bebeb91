"""YAML to a typed plan and model: schema, units, loading, located faults. Executes nothing."""
