"""CycloneDDS's library and C functions, without the rest of its Python package unless somebody asks for it.

`import cyclonedds` brings its whole API, of which the wire uses nothing, and takes a tenth of a second. So the package
stands in `sys.modules` before its `__init__` has run, and runs it when a name is asked for that is not there.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_NAME = "cyclonedds"
_lock = threading.RLock()


class _Package(ModuleType):
    """A package whose `__init__` has not run yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # asked for by the import system and by inspection
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        with _lock:
            if type(self) is _Package:
                self.__class__ = ModuleType  # type: ignore[assignment]
                spec: Any = self.__spec__
                spec.loader.exec_module(self)
        return getattr(self, name)


def load() -> tuple[Any, Any]:
    """(the library for ctypes, the extension module). Both are private, which is why the package is pinned."""
    if _NAME not in sys.modules:
        spec = importlib.util.find_spec(_NAME)
        if spec is not None:
            package = importlib.util.module_from_spec(spec)
            package.__class__ = _Package
            sys.modules[_NAME] = package
    internal = importlib.import_module(f"{_NAME}.internal")
    return internal.DDS._dll_handle, importlib.import_module(f"{_NAME}._clayer")
