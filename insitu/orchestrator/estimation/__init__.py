"""Laws refitted on achieved levels, with intervals and diagnostics; answers to what-if questions.

`refit.fit_law` makes a `fit.Fit`, which is plain data and lives on in ``fitted.json``; `analysis.fit_all` fits
every law of a run, and `analysis.analyse` does all that a report needs. `recursive` takes one more trial into a
fit at a time that does not grow with the trials, `streaming.fit_parquet` fits tables of any size. `model.assemble`
puts laws and fits together; questions are put to that: `asking` (what if, effects, elasticities),
`counterfactual`, `explanation`, `comparison`. `queries` answers from one law in closed form. Nothing is imported
here, since statsmodels takes a second to load.
"""
