"""The feedback service: takes what people and programs say of answers, and keeps every word of it."""
