"""The commands of `kubectl scx`; a module is imported when one of its commands is called."""
