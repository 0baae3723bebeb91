"""Laws refitted on achieved levels, with intervals and diagnostics; answers to what-if questions.

`refit.fit_law` makes a `fit.Fit`, which is plain data and lives on in ``fitted.json``; `queries` answers from
it, `curves` draws from it, `analysis.analyse` does all that a report needs. `recursive` takes one more trial
into a fit at a time that does not grow with the trials, `streaming.fit_parquet` fits tables of any size. Nothing
is imported here, since statsmodels takes a second to load.
"""
