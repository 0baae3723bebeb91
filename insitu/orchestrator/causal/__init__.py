"""The blueprint: the graph of a model, its laws, their dimensions, and do().

Public: `blueprint` (``build_blueprint``, ``check_against``, ``Blueprint``, ``Edge``, ``Law``); `projection`
(``graph_of``), `identification` (``identify``), `explanation` (``explain``) and `independencies`
(``implied_independencies``), which reason about its graph alone.
"""
