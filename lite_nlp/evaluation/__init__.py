"""Quality of a model's output: BLEU and chrF with signatures and confidence intervals."""
