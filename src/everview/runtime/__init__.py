"""The running pipeline: sources, traces (state), manifest, step loop, sinks, recovery."""
