"""The few C functions of CycloneDDS that the wire needs, with their types, and its return codes as exceptions.

Calls through ctypes release the interpreter lock; `ddspy_write` and `ddspy_take` of the CycloneDDS package hold it.
"""

from __future__ import annotations

import ctypes as ct
from typing import Any

from embedded_ros.wire import cyclonedds_package, older_cyclonedds

_library, _private = cyclonedds_package.load()
if older_cyclonedds.is_older(_private):
    _private = older_cyclonedds.Functions(_library, _private)
ddspy_topic_create = _private.ddspy_topic_create
ddspy_write = _private.ddspy_write
ddspy_take = _private.ddspy_take
ddspy_take_endpoint = _private.ddspy_take_endpoint
ddspy_take_participant = _private.ddspy_take_participant
ddspy_get_matched_publication_data = _private.ddspy_get_matched_publication_data
ddspy_get_matched_subscription_data = _private.ddspy_get_matched_subscription_data

Entity = int
INFINITE = (1 << 63) - 1
TIMEOUT = -10

ANY_STATE = 127
# Built-in topics are pseudo handles.
BUILTIN_PARTICIPANT = 0x7FFF0001
BUILTIN_PUBLICATION = 0x7FFF0003
BUILTIN_SUBSCRIPTION = 0x7FFF0004


_MEANINGS = {
    -1: "an error inside CycloneDDS",
    -2: "not supported",
    -3: "a parameter that is not valid",
    -4: "not possible in this state",
    -5: "out of resources",
    -6: "not enabled",
    -7: "a policy that cannot be changed",
    -8: "policies that contradict each other",
    -9: "already deleted",
    -10: "timed out",
    -11: "no data",
    -12: "not allowed here",
    -13: "not allowed by security",
}


class DdsError(RuntimeError):
    """CycloneDDS refused a call; `code` is its (negative) return code."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        super().__init__(f"{what}: {_MEANINGS.get(code, 'unknown error')} (CycloneDDS {code})")


class IncompatibleStatus(ct.Structure):
    """Incompatible quality of service: count and the policy that was last at fault."""

    _fields_ = [("total", ct.c_uint32), ("change", ct.c_int32), ("policy", ct.c_uint32)]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, name)
    function.restype = result
    function.argtypes = arguments
    return function


_entity, _code = ct.c_int32, ct.c_int32
_handle, _duration = ct.c_uint64, ct.c_int64

create_domain = _function("dds_create_domain", _entity, ct.c_uint32, ct.c_char_p)
create_participant = _function("dds_create_participant", _entity, ct.c_uint32, ct.c_void_p, ct.c_void_p)
create_publisher = _function("dds_create_publisher", _entity, _entity, ct.c_void_p, ct.c_void_p)
create_subscriber = _function("dds_create_subscriber", _entity, _entity, ct.c_void_p, ct.c_void_p)
create_writer = _function("dds_create_writer", _entity, _entity, _entity, ct.c_void_p, ct.c_void_p)
create_reader = _function("dds_create_reader", _entity, _entity, _entity, ct.c_void_p, ct.c_void_p)
create_readcondition = _function("dds_create_readcondition", _entity, _entity, ct.c_uint32)
create_guardcondition = _function("dds_create_guardcondition", _entity, _entity)
set_guardcondition = _function("dds_set_guardcondition", _code, _entity, ct.c_bool)
take_guardcondition = _function("dds_take_guardcondition", _code, _entity, ct.POINTER(ct.c_bool))
create_waitset = _function("dds_create_waitset", _entity, _entity)
waitset_attach = _function("dds_waitset_attach", _code, _entity, _entity, ct.c_ssize_t)
waitset_detach = _function("dds_waitset_detach", _code, _entity, _entity)
waitset_wait = _function("dds_waitset_wait", _code, _entity, ct.c_void_p, ct.c_size_t, _duration)  # address of an array
delete = _function("dds_delete", _code, _entity)
get_guid = _function("dds_get_guid", _code, _entity, ct.c_char * 16)
wait_for_acks = _function("dds_wait_for_acks", _code, _entity, _duration)
matched_publications = _function("dds_get_matched_publications", _code, _entity, ct.POINTER(_handle), ct.c_size_t)
matched_subscriptions = _function("dds_get_matched_subscriptions", _code, _entity, ct.POINTER(_handle), ct.c_size_t)

_status = (_code, _entity, ct.c_void_p)
offered_incompatible_qos = _function("dds_get_offered_incompatible_qos_status", *_status)
requested_incompatible_qos = _function("dds_get_requested_incompatible_qos_status", *_status)

create_qos = _function("dds_create_qos", ct.c_void_p)
delete_qos = _function("dds_delete_qos", None, ct.c_void_p)
qset_reliability = _function("dds_qset_reliability", None, ct.c_void_p, ct.c_int, _duration)
qset_durability = _function("dds_qset_durability", None, ct.c_void_p, ct.c_int)
qset_history = _function("dds_qset_history", None, ct.c_void_p, ct.c_int, ct.c_int32)
qset_durability_service = _function(
    "dds_qset_durability_service",
    *(None, ct.c_void_p, _duration, ct.c_int, ct.c_int32, ct.c_int32, ct.c_int32, ct.c_int32),
)
qset_deadline = _function("dds_qset_deadline", None, ct.c_void_p, _duration)
qset_lifespan = _function("dds_qset_lifespan", None, ct.c_void_p, _duration)
qset_liveliness = _function("dds_qset_liveliness", None, ct.c_void_p, ct.c_int, _duration)
qset_writer_data_lifecycle = _function("dds_qset_writer_data_lifecycle", None, ct.c_void_p, ct.c_bool)
qset_userdata = _function("dds_qset_userdata", None, ct.c_void_p, ct.c_char_p, ct.c_size_t)
qset_data_representation = _function(
    "dds_qset_data_representation", None, ct.c_void_p, ct.c_uint32, ct.POINTER(ct.c_int16)
)
_int, _time = ct.POINTER(ct.c_int), ct.POINTER(_duration)
qget_reliability = _function("dds_qget_reliability", ct.c_bool, ct.c_void_p, _int, _time)
qget_durability = _function("dds_qget_durability", ct.c_bool, ct.c_void_p, _int)
qget_history = _function("dds_qget_history", ct.c_bool, ct.c_void_p, _int, ct.POINTER(ct.c_int32))
qget_deadline = _function("dds_qget_deadline", ct.c_bool, ct.c_void_p, _time)
qget_lifespan = _function("dds_qget_lifespan", ct.c_bool, ct.c_void_p, _time)
qget_liveliness = _function("dds_qget_liveliness", ct.c_bool, ct.c_void_p, _int, _time)
qget_userdata = _function("dds_qget_userdata", ct.c_bool, ct.c_void_p, ct.POINTER(ct.c_void_p), ct.POINTER(ct.c_size_t))
free = _function("dds_free", None, ct.c_void_p)


def checked(code: int, what: str) -> int:
    """The result of a call. Raises DdsError where it is a fault; `what` says what was tried."""
    if code < 0:
        raise DdsError(code, what)
    return code


def guid(entity: Entity) -> bytes:
    """The 16 bytes that name an entity in all processes."""
    buffer = (ct.c_char * 16)()
    checked(get_guid(entity, buffer), "asking for a GUID")
    return bytes(buffer)
