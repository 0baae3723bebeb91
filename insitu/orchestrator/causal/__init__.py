"""The blueprint: the graph of a model, its laws, their dimensions, and do().

Public: `blueprint` (``build_blueprint``, ``check_against``, ``Blueprint``, ``Edge``, ``Law``), `law` (what a law
says at values of its parameters), `expression` (what laws are made of); `composite` and `target` (what a goal asks
for, through all laws between); `projection` (``graph_of``), `identification` (``identify``), `explanation`
(``explain``) and `independencies` (``implied_independencies``), which reason about the graph alone.
"""
