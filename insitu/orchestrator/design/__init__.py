"""Which trials to run, in which order, in which blocks; and when to stop.

Public: `protocol` (``Design``, ``Request``, ``Planned``, ``find_design``, ``design_names``, ``replacement``),
and for trials that are chosen as they are needed `sequential` (``plan_batch``), `contest`, `looks`, `stopping`
(``judge``) and `foresight` (``foresee``). What all of them share: `space` (``space_of``), `at_rest`, `situation`,
`belief`, `controls` (``check_of``), `layout` (``lay_out``), `setup`; what planned trials will tell: `expected`,
`estimability`.

The rooms: `kinds` (designs that are fixed before a run) and `optimality` (the numbers behind, which know of
rows of derivatives and not of plans: ``criteria``, ``exchange``, ``blocks``, ``budgeted``, ``batch``,
``continuous``, ``precision``, ``confounding``, ``discrimination``).
"""
