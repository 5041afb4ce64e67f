"""The console: follows every topic, keeps its own read model, and shows the loop on one page."""
