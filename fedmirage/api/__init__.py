"""What Python programs call: functions, and runs and comparisons as objects with frames."""
