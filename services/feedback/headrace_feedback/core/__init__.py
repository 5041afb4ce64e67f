"""What feedback is and what becomes of it: pure."""
