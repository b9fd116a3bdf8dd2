"""The commands: parse, make a Config, call one service, exit code."""
