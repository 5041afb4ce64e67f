"""Training: trajectories in, adapter checkpoints out."""
