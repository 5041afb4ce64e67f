"""What the page shows, computed from rows: values in, values out."""
