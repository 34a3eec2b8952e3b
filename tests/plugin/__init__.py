"""The scheduler of `examples/plugin-scheduler`, installed: by real commands, and by the contract."""
