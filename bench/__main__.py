"""`python -m bench [--list] [word…]`: run the benchmarks, or those whose name contains one of the words.

`python -m bench profile QUERY` shows where the time of a step goes instead.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator

import bench


def find_benchmarks() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield every function `bench_…` of every module here, in the order of modules and of lines."""
    for module_info in pkgutil.iter_modules(bench.__path__):
        if module_info.name.startswith("_"):
            continue
        module = importlib.import_module(f"bench.{module_info.name}")
        for name, member in vars(module).items():
            if name.startswith("bench_") and callable(member) and member.__module__ == module.__name__:
                yield f"{module_info.name}.{name.removeprefix('bench_')}", member


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["profile"]:
        from bench import profile

        return profile.main(arguments[1:])
    words = [word for word in arguments if not word.startswith("-")]
    chosen = [
        (name, run) for name, run in find_benchmarks() if not words or any(word in name for word in words)
    ]
    if not chosen:
        print("bench: no benchmark matches" if words else "bench: there are no benchmarks yet")
        return 1 if words else 0
    for name, run in chosen:
        about = (run.__doc__ or "").strip().partition("\n")[0]
        print(f"{name}: {about}" if about else name, flush=True)
        if "--list" not in arguments:
            run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
