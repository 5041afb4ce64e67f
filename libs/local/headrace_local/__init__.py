"""The Headrace stack without containers: real parts and services as child processes on loopback."""
