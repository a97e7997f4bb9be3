"""EtherCAT sensors' files, and layouts that are checked against what a device maps."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from benchmarks.drivers.fuzz import kept
from drivers.ethercat.description import WRENCH, SdoObject, find, parse, shipped
from drivers.ethercat.device import Device, check_mapping, conversion_of, dtype_of
from onboard_estimation.base.configuration import ConfigurationError
from onboard_estimation.base.errors import UserError

SIZES = {
    "ati_axia80": (32, 8),
    "ati_ft": (32, 8),
    "beckhoff_el3004": (16, 0),
    "beckhoff_el3104": (16, 0),
    "bota_rokubi": (77, 1),
    "bota_sensone": (77, 1),
    "me_gsv8": (40, 0),
    "schunk_ft_axia": (32, 8),
}
"""Bytes of inputs and outputs, by the makers' documents and drivers."""


def text(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(shipped()[name].read_text())
    return content


def written(content: Any) -> bytes:
    return str(yaml.safe_dump(content)).encode()


def rows(name: str, part: str) -> dict[int, list[int]]:
    """What a device of this description maps."""
    return {pdo.pdo: [entry.mapping for entry in pdo.entries] for pdo in getattr(find(name), part)}


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_file_has_the_size_of_its_device_and_fits_one_that_is_as_described(name: str) -> None:
    one = find(name)
    sizes = tuple(sum(entry.size for entry in entries) for entries in (one.input_entries, one.output_entries))
    assert sizes == SIZES[name]
    assert dtype_of(one.input_entries).itemsize == SIZES[name][0]
    assert one.has_wrench != bool(one.voltages)
    for part in ("inputs", "outputs"):
        check_mapping(one.name, part, getattr(one, part), rows(name, part))


def test_offsets_are_those_of_bota_s_own_example() -> None:
    """struct.unpack_from in the maker's Python: forces from 5, saturation at 29, accelerations from 31."""
    fields = dtype_of(find("bota_rokubi").input_entries).fields
    assert fields is not None
    places = {name: fields[name][1] for name in ("status", "flags", "force_x", "torque_z", "saturation")}
    assert places == {"status": 0, "flags": 1, "force_x": 5, "torque_z": 25, "saturation": 29}
    assert (fields["acceleration_x"][1], fields["temperature"][1]) == (31, 57)


def test_all_faults_are_listed_together() -> None:
    content = text("ati_axia80")
    content["vendor_id"] = -1
    content["colour"] = "red"
    content["inputs"][0]["entries"][0]["type"] = "int33"
    content["scales"]["force"]["unit"]["codes"][0] = "stone"
    content["status"][0]["level"] = "bad"
    with pytest.raises(ConfigurationError) as caught:
        parse(written(content))
    said = "\n".join(caught.value.faults)
    for part in ("vendor_id: -1", "'colour' is unknown", "type: 'int33'", "'stone'", "status[0].level: 'bad'"):
        assert part in said
    assert len(caught.value.faults) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["inputs"][0]["entries"].pop(2), "force_z missing beside force_x"),
        (lambda one: one["inputs"][0]["entries"][0].update(scale="torque"), "unit lbf in, .* of force_x, which"),
        (lambda one: one["scales"].pop("force"), "force_x has scale force, which `scales` does not have"),
        (lambda one: one["status"][0].update(mask=2**32), "no input status of an unsigned type that holds"),
        (lambda one: one["inputs"][0]["entries"].append(one["inputs"][0]["entries"][0]), "field force_x is there 2"),
        (lambda one: one["inputs"].extend([{"pdo": 0x1A01, "entries": [{"type": "uint64"}] * 200}]), "1632 bytes"),
        (lambda one: one["inputs"].clear(), "neither force_x to torque_z nor voltage_1"),
    ],
)
def test_what_does_not_go_together_is_refused(change: Any, said: str) -> None:
    content = text("ati_axia80")
    change(content)
    with pytest.raises(ConfigurationError, match=said):
        parse(written(content))


def test_what_a_fuzzer_kept_is_taken_or_refused() -> None:
    for data in kept("ethercat_description"):
        with suppress(ConfigurationError):
            parse(data)


def test_single_bits_in_place_of_a_status_word_pass() -> None:
    """As a Beckhoff terminal has them: what the description leaves open may be anything of its length."""
    one, mapped = find("beckhoff_el3104"), rows("beckhoff_el3104", "inputs")
    bits = [0x60000101, 0x60000201, 0x60000302, 0x60000502, 0x60000701, 0x00000001, 0x00000005]
    mapped[0x1A00] = [*bits, 0x60000E01, 0x60000F01, 0x60001001, 0x60001110]
    check_mapping(one.name, "inputs", one.inputs, mapped)
    mapped[0x1A00].pop(0)
    with pytest.raises(UserError, match="byte 2: described is voltage_1, 0x6000:11 of 16 bits; the device has nothing"):
        check_mapping(one.name, "inputs", one.inputs, mapped)


def test_differences_are_told_with_their_places() -> None:
    one, mapped = find("ati_axia80"), rows("ati_axia80", "inputs")
    mapped[0x1A00][6:8] = [0x60200020, 0x60100020]
    with pytest.raises(UserError) as caught:
        check_mapping(one.name, "inputs", one.inputs, mapped)
    assert "byte 28: described is counter, 0x6020:00 of 32 bits; the device has 0x6010:00" in str(caught.value)
    with pytest.raises(UserError, match=r"0x1A01 assigned .0x1C13., its description has 0x1A00"):
        check_mapping(one.name, "inputs", one.inputs, {0x1A01: []})
    device = Device(one, 0, SimpleNamespace(input=bytes(28), output=bytes(8)), 0, None)
    with pytest.raises(UserError, match="maps 28 bytes of inputs, its description has 32"):
        device.check_sizes()


def test_units_and_factors_are_those_the_device_tells() -> None:
    one = find("ati_ft")
    asked: dict[SdoObject, float] = {}
    conversion_of(one, WRENCH, lambda each: asked.setdefault(each, 1.0))
    objects = list(asked)
    assert [str(each) for each in objects] == ["0x2040:31", "0x2040:29", "0x2040:32", "0x2040:2A"]
    told = dict(zip(objects, (1e4, 1, 1e5, 2), strict=True))  # lbf, lbf ft
    records = np.zeros(2, dtype_of(one.input_entries))
    records["force_x"], records["torque_y"] = 20_000, -100_000
    values = conversion_of(one, WRENCH, told.__getitem__)(records)
    # A pound-force is 0.45359237 kg at 9.80665 m/s^2, a foot 0.3048 m.
    np.testing.assert_allclose(values[0], [2 * 0.45359237 * 9.80665, 0, 0, 0, -0.45359237 * 9.80665 * 0.3048, 0])
    with pytest.raises(UserError, match=r"tells unit 0x9 in 0x2040:29; known: 0x1 lbf, 0x2 N"):
        conversion_of(one, WRENCH, {**told, objects[1]: 9}.__getitem__)
    with pytest.raises(UserError, match="tells unit -0x1"):  # by the fuzzer
        conversion_of(one, WRENCH, {**told, objects[1]: float("nan")}.__getitem__)
    with pytest.raises(UserError, match="force_x has the factor 0"):
        conversion_of(one, WRENCH, {**told, objects[0]: 0.0}.__getitem__)
    remarks = conversion_of(find("me_gsv8"), WRENCH, lambda _: 2.0).remarks  # a unit that may be assumed
    assert len(remarks) == 6
    assert "unit 0x2 in 0x6131:01 is not known, N is assumed" in remarks[0]
    with pytest.raises(UserError, match=r"'axia': not among ati_axia80, ati_ft, .*me_gsv8"):
        find("axia")
