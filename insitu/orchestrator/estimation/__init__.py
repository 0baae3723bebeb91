"""Laws refitted on achieved levels, with intervals and diagnostics; answers to questions.

`analysis.fit_all` fits every law of a run, and `analysis.analyse` does all that a report needs. What comes of
it is a `fit.Fit`, plain data that lives on in ``fitted.json`` (`fitted_file`); `answer` is what it says of a
plan's goal.

The rooms: `fitting` (every method; ``refit.fit_law``), `at_scale` (one more trial in constant time, tables of
any size), `checks` (of a fit and of the graph), `questions` (``model.assemble`` puts laws and fits together;
``asking``, ``counterfactual``, ``explanation`` and ``comparison`` answer through that), `suspects` (causes
outside the model) and `rivals` (which of two laws). Nothing is imported here, since statsmodels takes a second
to load.
"""
