"""Sparkplug B payloads as another encoder writes them: protobuf's, from a description of the norm's section 6.4."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import Message

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64,
    "float": _FIELD.TYPE_FLOAT,
    "double": _FIELD.TYPE_DOUBLE,
    "bool": _FIELD.TYPE_BOOL,
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
}

# Fields by number: a type and a name, `*` before what is repeated, `|` before what excludes each other.
_MESSAGES = {
    "Payload": {1: "uint64 timestamp", 2: "*Metric metrics", 3: "uint64 seq", 4: "string uuid", 5: "bytes body"},
    "Metric": {
        1: "string name",
        2: "uint64 alias",
        3: "uint64 timestamp",
        4: "uint32 datatype",
        5: "bool is_historical",
        6: "bool is_transient",
        7: "bool is_null",
        8: "MetaData metadata",
        9: "PropertySet properties",
        10: "|uint32 int_value",
        11: "|uint64 long_value",
        12: "|float float_value",
        13: "|double double_value",
        14: "|bool boolean_value",
        15: "|string string_value",
        16: "|bytes bytes_value",
        17: "|DataSet dataset_value",
        18: "|Template template_value",
    },
    "MetaData": {1: "bool is_multi_part", 2: "string content_type", 3: "uint64 size", 8: "string description"},
    "PropertySet": {1: "*string keys", 2: "*PropertyValue values"},
    "PropertyValue": {1: "uint32 type", 2: "bool is_null", 3: "|uint32 int_value", 8: "|string string_value"},
    "DataSet": {1: "uint64 num_of_columns", 2: "*string columns", 3: "*uint32 types", 4: "*Row rows"},
    "Row": {1: "*DataSetValue elements"},
    "DataSetValue": {
        1: "|uint32 int_value",
        2: "|uint64 long_value",
        3: "|float float_value",
        4: "|double double_value",
        5: "|bool boolean_value",
        6: "|string string_value",
    },
    "Template": {
        1: "string version",
        2: "*Metric metrics",
        3: "*Parameter parameters",
        4: "string template_ref",
        5: "bool is_definition",
    },
    "Parameter": {
        1: "string name",
        2: "uint32 type",
        3: "|uint32 int_value",
        4: "|uint64 long_value",
        5: "|float float_value",
        6: "|double double_value",
        7: "|bool boolean_value",
        8: "|string string_value",
    },
}


def _payload_class() -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto(name="sparkplug.proto", package="sparkplug", syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, text in fields.items():
            type_, name = text.lstrip("*|").split()
            field = message.field.add(name=name, number=number)
            field.label = _FIELD.LABEL_REPEATED if text[0] == "*" else _FIELD.LABEL_OPTIONAL
            if type_ in _SCALARS:
                field.type = _SCALARS[type_]
            else:
                field.type = _FIELD.TYPE_MESSAGE
                field.type_name = f".sparkplug.{type_}"
            if text[0] == "|":
                if not message.oneof_decl:
                    message.oneof_decl.add(name="value")
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkplug.Payload"))


PAYLOAD = _payload_class()


def encode(payload: dict[str, Any]) -> bytes:
    """The bytes of a payload whose fields are named as in the norm; bytes are written in Base64."""
    return json_format.ParseDict(payload, PAYLOAD(), max_recursion_depth=1000).SerializeToString()
