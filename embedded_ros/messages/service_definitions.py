"""Services of the standard packages as lists of fields, since rosbags' type stores hold messages only."""

from __future__ import annotations

# Name: (lines of the request, lines of the response), as in the interface files. A service whose messages the chosen
# distribution does not have is left out.
SERVICES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "action_msgs/srv/CancelGoal": (
        ("GoalInfo goal_info",),
        (
            "int8 ERROR_NONE=0",
            "int8 ERROR_REJECTED=1",
            "int8 ERROR_UNKNOWN_GOAL_ID=2",
            "int8 ERROR_GOAL_TERMINATED=3",
            "int8 return_code",
            "GoalInfo[] goals_canceling",
        ),
    ),
    "diagnostic_msgs/srv/AddDiagnostics": (("string load_namespace",), ("bool success", "string message")),
    "diagnostic_msgs/srv/SelfTest": ((), ("string id", "byte passed", "DiagnosticStatus[] status")),
    "lifecycle_msgs/srv/ChangeState": (("Transition transition",), ("bool success",)),
    "lifecycle_msgs/srv/GetAvailableStates": ((), ("State[] available_states",)),
    "lifecycle_msgs/srv/GetAvailableTransitions": ((), ("TransitionDescription[] available_transitions",)),
    "lifecycle_msgs/srv/GetState": ((), ("State current_state",)),
    "nav_msgs/srv/GetMap": ((), ("OccupancyGrid map",)),
    "nav_msgs/srv/GetPlan": (
        ("geometry_msgs/PoseStamped start", "geometry_msgs/PoseStamped goal", "float32 tolerance"),
        ("Path plan",),
    ),
    "nav_msgs/srv/LoadMap": (
        ("string map_url",),
        (
            "uint8 RESULT_SUCCESS=0",
            "uint8 RESULT_MAP_DOES_NOT_EXIST=1",
            "uint8 RESULT_INVALID_MAP_DATA=2",
            "uint8 RESULT_INVALID_MAP_METADATA=3",
            "uint8 RESULT_UNDEFINED_FAILURE=255",
            "nav_msgs/OccupancyGrid map",
            "uint8 result",
        ),
    ),
    "nav_msgs/srv/SetMap": (
        ("nav_msgs/OccupancyGrid map", "geometry_msgs/PoseWithCovarianceStamped initial_pose"),
        ("bool success",),
    ),
    "rcl_interfaces/srv/DescribeParameters": (("string[] names",), ("ParameterDescriptor[] descriptors",)),
    "rcl_interfaces/srv/GetLoggerLevels": (("string[] names",), ("LoggerLevel[] levels",)),
    "rcl_interfaces/srv/GetParameterTypes": (("string[] names",), ("uint8[] types",)),
    "rcl_interfaces/srv/GetParameters": (("string[] names",), ("ParameterValue[] values",)),
    "rcl_interfaces/srv/ListParameters": (
        ("uint64 DEPTH_RECURSIVE=0", "string[] prefixes", "uint64 depth"),
        ("ListParametersResult result",),
    ),
    "rcl_interfaces/srv/SetLoggerLevels": (("LoggerLevel[] levels",), ("SetLoggerLevelsResult[] results",)),
    "rcl_interfaces/srv/SetParameters": (("Parameter[] parameters",), ("SetParametersResult[] results",)),
    "rcl_interfaces/srv/SetParametersAtomically": (("Parameter[] parameters",), ("SetParametersResult result",)),
    "rosbag2_interfaces/srv/Burst": (("uint64 num_messages",), ("uint64 actually_burst",)),
    "rosbag2_interfaces/srv/GetRate": ((), ("float64 rate",)),
    "rosbag2_interfaces/srv/IsPaused": ((), ("bool paused",)),
    "rosbag2_interfaces/srv/Pause": ((), ()),
    "rosbag2_interfaces/srv/Play": (
        (
            "builtin_interfaces/Time start_offset",
            "builtin_interfaces/Duration playback_duration",
            "builtin_interfaces/Time playback_until_timestamp",
        ),
        ("bool success",),
    ),
    "rosbag2_interfaces/srv/PlayNext": ((), ("bool success",)),
    "rosbag2_interfaces/srv/Resume": ((), ()),
    "rosbag2_interfaces/srv/Seek": (("builtin_interfaces/Time time",), ("bool success",)),
    "rosbag2_interfaces/srv/SetRate": (("float64 rate",), ("bool success",)),
    "rosbag2_interfaces/srv/Snapshot": ((), ("bool success",)),
    "rosbag2_interfaces/srv/SplitBagfile": ((), ()),
    "rosbag2_interfaces/srv/Stop": ((), ()),
    "rosbag2_interfaces/srv/TogglePaused": ((), ()),
    "sensor_msgs/srv/SetCameraInfo": (("CameraInfo camera_info",), ("bool success", "string status_message")),
    "std_srvs/srv/Empty": ((), ()),
    "std_srvs/srv/SetBool": (("bool data",), ("bool success", "string message")),
    "std_srvs/srv/Trigger": ((), ("bool success", "string message")),
    "tf2_msgs/srv/FrameGraph": ((), ("string frame_yaml",)),
    "type_description_interfaces/srv/GetTypeDescription": (
        ("string type_name", "string type_hash", "bool include_type_sources"),
        (
            "bool successful",
            "string failure_reason",
            "TypeDescription type_description",
            "TypeSource[] type_sources",
            "KeyValue[] extra_information",
        ),
    ),
    "visualization_msgs/srv/GetInteractiveMarkers": ((), ("uint64 sequence_number", "InteractiveMarker[] markers")),
}
