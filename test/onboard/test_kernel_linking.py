"""Which symbols a compiled kernel asks for."""

from __future__ import annotations

import pytest
from numba import njit

from onboard_estimation.base.kernel_files import can_be_linked, undefined_symbols


@pytest.fixture(scope="module")
def payload() -> tuple[object, ...]:
    """What numba keeps of a kernel, as far as it is looked at."""

    @njit
    def root(value: float) -> float:
        if value < 0.0:
            raise ValueError("no root")
        return float(value**0.5)

    root(2.0)
    (compiled,) = root.overloads.values()
    library = compiled.library
    library.enable_object_caching()
    return ((library.name, "object", (library._codegen._tm.emit_object(library._final_module), b"")),)


def test_symbols_of_a_kernel(payload: tuple[tuple[str, str, tuple[bytes, bytes]]]) -> None:
    found = undefined_symbols(payload[0][2][0])
    if found is None:
        pytest.skip("not 64-bit Linux")
    assert {b"PyArg_UnpackTuple", b"PyErr_SetString"} <= found
    assert can_be_linked(payload)


def test_an_unknown_symbol_cannot_be_linked(payload: tuple[tuple[str, str, tuple[bytes, bytes]]]) -> None:
    name, kind, (code, shared) = payload[0]
    if undefined_symbols(code) is None:
        pytest.skip("not 64-bit Linux")
    other = code.replace(b"PyArg_UnpackTuple", b"PyArg_UnpackNoneX")
    assert not can_be_linked(((name, kind, (other, shared)),))


@pytest.mark.parametrize(
    "payload", [None, (), ("name",), (("name", "bitcode", b""),), (("name", "object", (b"MZ", b"")),)]
)
def test_what_is_built_otherwise_is_left_to_numba(payload: object) -> None:
    assert not can_be_linked(payload)


@pytest.mark.parametrize("length", [0, 6, 40, 64, 200, 1000])
def test_a_file_that_is_cut_off_is_none(payload: tuple[tuple[str, str, tuple[bytes, bytes]]], length: int) -> None:
    assert not undefined_symbols(payload[0][2][0][:length])
