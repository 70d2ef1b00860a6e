"""Parameters and Mult-Adds of a model, counted against the mobile budget."""
