"""Serves the embedded packages under ROS 2's names: code from `packages/`, messages made as they are asked for."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from embedded_ros.absent import PACKAGES, AbsentModule, absent, refuse

CODE_PACKAGES = frozenset({"ament_index_python", "launch", "launch_ros", "rclpy", "tf2_ros"})
# What message packages are called; only such names make the definitions load.
_MESSAGE_ENDINGS = ("_msgs", "_srvs", "_interfaces", "_dds_common")
_FOLDER = Path(__file__).resolve().parent / "packages"


class EmbeddedFinder(importlib.abc.MetaPathFinder):
    """Finds the packages that this runtime stands in for, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Spec of a served package or of a part of a message package; None for all other names."""
        top, _, rest = fullname.partition(".")
        if top in CODE_PACKAGES:
            spec = importlib.machinery.PathFinder.find_spec(fullname, path if rest else [str(_FOLDER)])
            if spec is None:
                _say_absent(fullname)
                return None
            if spec.submodule_search_locations is None:
                # As if it were a package: then names that `from module import name` does not find are asked for here.
                spec.submodule_search_locations = []
            if isinstance(spec.loader, importlib.machinery.SourceFileLoader):  # not of bytecode alone
                spec.loader = _CodeLoader(fullname, spec.loader.path)
            return spec
        if top in PACKAGES:
            return self._elsewhere(fullname, path, target)
        if not top.endswith(_MESSAGE_ENDINGS):
            return None
        from embedded_ros.messages.definitions import definitions

        known = definitions()
        if top not in known.packages():
            return self._elsewhere(fullname, path, target, f"its messages are {', '.join(sorted(known.packages()))}")
        kind, _, module = rest.partition(".")
        if rest and (kind not in ("msg", "srv") or not known.names(top, kind)):
            _say_absent(fullname)
            return None
        if module and module not in _modules(top, kind):
            _say_absent(fullname)
            return None
        loader = _MessageLoader(top, kind, module)
        return importlib.machinery.ModuleSpec(fullname, loader, origin="embedded", is_package=not module)

    def _elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None, instead: str = ""
    ) -> importlib.machinery.ModuleSpec | None:
        """A package of that name that somebody has installed; if nobody has, what is to be said of it."""
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                return spec
        if "." not in fullname:
            _say_absent(fullname, instead)
        return None


def _say_absent(fullname: str, instead: str = "") -> None:
    """AbsentModule, unless somebody only asks whether the module is there (`importlib.util.find_spec`)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename):
        if frame.f_code.co_name == "_find_and_load_unlocked":
            # Without `name`: of `from module import name` the import system would say nothing but its own otherwise.
            raise AbsentModule(absent(fullname, instead))
        frame = frame.f_back


class _CodeLoader(importlib.machinery.SourceFileLoader):
    """Of a served module, which says of the names that it lacks what is to be said."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__dict__.setdefault("__getattr__", partial(refuse, module.__name__))


class _MessageLoader(importlib.abc.Loader):
    """Makes `sensor_msgs` (neither kind nor module), `sensor_msgs.msg`, and `sensor_msgs.msg._imu`."""

    def __init__(self, package: str, kind: str, module: str) -> None:
        self._package = package
        self._kind = kind
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        namespace: dict[str, Any] = module.__dict__
        if not self._kind:
            return
        package, kind = self._package, self._kind
        if self._module:
            for short in _modules(package, kind)[self._module]:
                namespace[short] = _class(package, kind, short)
            return
        from embedded_ros.messages.definitions import definitions

        names = definitions().names(package, kind)

        def get(name: str) -> Any:
            if name == "__all__":
                return names
            if name.startswith("_") or (name not in names and name.rpartition("_")[0] not in names):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            namespace[name] = _class(package, kind, name)
            return namespace[name]

        namespace["__getattr__"] = get
        namespace["__dir__"] = lambda: sorted({*namespace, *names})


def _class(package: str, kind: str, short: str) -> type:
    from embedded_ros.messages import definitions, message_class, service_class

    name = f"{package}/{kind}/{short}"
    if name in definitions().services:
        return service_class(name)
    try:
        return message_class(name)
    except LookupError as error:
        raise AttributeError(str(error)) from None


def _modules(package: str, kind: str) -> dict[str, list[str]]:
    """Classes of each private module, as rclpy's packages have them: `_imu` holds Imu, `_trigger` three classes."""
    from embedded_ros.messages.classes import module_name
    from embedded_ros.messages.definitions import definitions

    known = definitions()
    found: dict[str, list[str]] = {}
    for short in known.names(package, kind):
        classes = [short]
        if kind == "srv":
            parts = (f"{short}_{part}" for part in ("Request", "Response", "Event"))
            classes += [part for part in parts if f"{package}/{kind}/{part}" in known]
        found[module_name(short)] = classes
    return found


def is_installed() -> bool:
    """Whether the finder is in `sys.meta_path`."""
    return any(isinstance(finder, EmbeddedFinder) for finder in sys.meta_path)


def install() -> None:
    """Put the finder first. First, since a folder `launch/` where a program starts would be taken for a package."""
    if is_installed():
        return
    for name in list(sys.modules):
        if name.partition(".")[0] in CODE_PACKAGES and getattr(sys.modules[name], "__file__", None) is None:
            del sys.modules[name]  # a namespace package made of a stray folder
    sys.meta_path.insert(0, EmbeddedFinder())
