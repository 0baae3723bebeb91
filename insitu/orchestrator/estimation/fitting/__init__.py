"""Laws fitted to trials: every method, its bounds and priors, and intervals that are honest about them."""
