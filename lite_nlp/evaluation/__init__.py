"""Quality of a model's output: BLEU and chrF, ROUGE, perplexity, accuracy, with intervals and signatures."""
