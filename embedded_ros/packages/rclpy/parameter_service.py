"""Services with which others read and set a node's parameters."""

from __future__ import annotations

import weakref
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    GetParameterTypes,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)

from rclpy.exceptions import ParameterNotDeclaredException, ParameterUninitializedException
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_parameters


class ParameterService:
    """The six services of a node; a question about something undeclared gets an empty answer, as from rclpy."""

    def __init__(self, node: Any) -> None:
        self._node = weakref.ref(node)
        for srv_type, name, callback in (
            (DescribeParameters, "describe_parameters", self._describe),
            (GetParameters, "get_parameters", self._get),
            (GetParameterTypes, "get_parameter_types", self._types),
            (ListParameters, "list_parameters", self._list),
            (SetParameters, "set_parameters", self._set),
            (SetParametersAtomically, "set_parameters_atomically", self._set_atomically),
        ):
            full = f"{node.get_name()}/{name}"
            node.create_service(srv_type, full, callback, qos_profile=qos_profile_parameters)

    def _alive(self) -> Any:
        node = self._node()
        if node is None:
            raise ReferenceError("the node of these parameters is gone")
        return node

    def _describe(self, request: Any, response: Any) -> Any:
        try:
            response.descriptors = self._alive().describe_parameters(list(request.names))
        except ParameterNotDeclaredException:
            response.descriptors = []
        return response

    def _get(self, request: Any, response: Any) -> Any:
        try:
            parameters = self._alive().get_parameters(list(request.names))
        except (ParameterNotDeclaredException, ParameterUninitializedException):
            parameters = []
        response.values = [parameter.get_parameter_value() for parameter in parameters]
        return response

    def _types(self, request: Any, response: Any) -> Any:
        try:
            types = self._alive().get_parameter_types(list(request.names))
            response.types = [getattr(kind, "value", kind) for kind in types]
        except ParameterNotDeclaredException:
            response.types = []
        return response

    def _list(self, request: Any, response: Any) -> Any:
        response.result = self._alive().list_parameters(list(request.prefixes), request.depth)
        return response

    def _set(self, request: Any, response: Any) -> Any:
        response.results = [self._set_all([message]) for message in request.parameters]
        return response

    def _set_atomically(self, request: Any, response: Any) -> Any:
        response.result = self._set_all(request.parameters)
        return response

    def _set_all(self, messages: Any) -> SetParametersResult:
        try:
            return self._alive().set_parameters_atomically([Parameter.from_parameter_msg(each) for each in messages])
        except (ParameterNotDeclaredException, ValueError, RuntimeError) as error:
            return SetParametersResult(successful=False, reason=str(error))
