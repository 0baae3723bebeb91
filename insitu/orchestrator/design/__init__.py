"""Which trials to run, in which order, in which blocks; and when to stop.

Public: `protocol` (``Design``, ``Request``, ``Planned``, ``find_design``, ``design_names``, ``replacement``), the
kinds `factorial`, `fractions`, `latin` and `optimal`, what they share: `space` (``space_of``), `situation`,
`belief`, `layout` (``lay_out``), `setup`, `local`; what planned trials will tell: `expected`
(``expected_from``); and for trials that are chosen as they are needed `sequential` (``plan_batch``), `looks`,
`stopping` (``judge``) and `foresight` (``foresee``).

The numbers behind, which know of rows of derivatives and not of plans: `criteria` (``d_optimal``, ``i_optimal``,
``c_optimal``, ``a_optimal``), `exchange`, `blocks` (``exchange_in_blocks``), `budgeted` (``exchange_within``),
`batch` (``next_batch``), `continuous` (``best_possible``), `precision` (``precision_of``), `confounding`,
`discrimination` (``discriminate``), `controls` (``check_of``), `space_filling` (``latin_hypercube``), `fractional`
(``two_level_fraction``) and `orthogonal` (``mixed_fraction``).
"""
