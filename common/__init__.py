"""What both sides share. Imports neither `client` nor `server`."""
