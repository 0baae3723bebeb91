"""Questions to a fitted model: what if, how large an effect, what would this trial have been, why was it slow."""
