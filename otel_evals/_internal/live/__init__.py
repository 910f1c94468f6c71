"""The in-process runtime: configures a process and its providers, and handles forks, signals and exits."""
