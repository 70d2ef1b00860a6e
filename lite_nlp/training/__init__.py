"""Loss, schedules, the training loop and its checkpoints."""
