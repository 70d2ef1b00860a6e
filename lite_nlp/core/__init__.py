"""What every other package stands on: errors, output files, special tokens."""
