"""The blueprint: the graph of a model, its laws, their dimensions, and do().

Public: `blueprint` (``build_blueprint``, ``check_against``, ``Blueprint``, ``Edge``, ``Law``), `law` (what a law
says at values of its parameters), `expression` (what laws are made of).
"""
