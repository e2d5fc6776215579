from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JsonForm(_message.Message):
    __slots__ = ("null_fields", "empty_fields", "integer_fields", "absent_fields", "extra_json")
    NULL_FIELDS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELDS_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELDS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_JSON_FIELD_NUMBER: _ClassVar[int]
    null_fields: _containers.RepeatedScalarFieldContainer[int]
    empty_fields: _containers.RepeatedScalarFieldContainer[int]
    integer_fields: _containers.RepeatedScalarFieldContainer[int]
    absent_fields: _containers.RepeatedScalarFieldContainer[int]
    extra_json: str
    def __init__(self, null_fields: _Optional[_Iterable[int]] = ..., empty_fields: _Optional[_Iterable[int]] = ..., integer_fields: _Optional[_Iterable[int]] = ..., absent_fields: _Optional[_Iterable[int]] = ..., extra_json: _Optional[str] = ...) -> None: ...

class UnknownVariant(_message.Message):
    __slots__ = ("type", "raw_json")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RAW_JSON_FIELD_NUMBER: _ClassVar[int]
    type: str
    raw_json: str
    def __init__(self, type: _Optional[str] = ..., raw_json: _Optional[str] = ...) -> None: ...

class StringList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class ItemList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("message", "function_call", "function_call_output", "reasoning", "mcp_call", "custom_tool_call", "custom_tool_call_output", "web_search_call", "file_search_call", "code_interpreter_call", "shell_call", "shell_call_output", "unknown", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "computer_call", "computer_call_output", "image_generation_call", "local_shell_call", "local_shell_call_output", "apply_patch_call", "apply_patch_call_output", "tool_search_call", "tool_search_output", "additional_tools", "configuration_update", "compaction", "compaction_trigger", "item_reference", "program", "program_output", "token_trace")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    MCP_CALL_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_TOOL_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_CALL_FIELD_NUMBER: _ClassVar[int]
    FILE_SEARCH_CALL_FIELD_NUMBER: _ClassVar[int]
    CODE_INTERPRETER_CALL_FIELD_NUMBER: _ClassVar[int]
    SHELL_CALL_FIELD_NUMBER: _ClassVar[int]
    SHELL_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    MCP_LIST_TOOLS_FIELD_NUMBER: _ClassVar[int]
    MCP_APPROVAL_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MCP_APPROVAL_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_CALL_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_GENERATION_CALL_FIELD_NUMBER: _ClassVar[int]
    LOCAL_SHELL_CALL_FIELD_NUMBER: _ClassVar[int]
    LOCAL_SHELL_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    APPLY_PATCH_CALL_FIELD_NUMBER: _ClassVar[int]
    APPLY_PATCH_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TOOL_SEARCH_CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_SEARCH_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_TOOLS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_UPDATE_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_TRIGGER_FIELD_NUMBER: _ClassVar[int]
    ITEM_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TRACE_FIELD_NUMBER: _ClassVar[int]
    message: MessageItem
    function_call: FunctionCall
    function_call_output: FunctionCallOutput
    reasoning: ReasoningItem
    mcp_call: McpCall
    custom_tool_call: CustomToolCall
    custom_tool_call_output: CustomToolCallOutput
    web_search_call: WebSearchCall
    file_search_call: FileSearchCall
    code_interpreter_call: CodeInterpreterCall
    shell_call: ShellCall
    shell_call_output: ShellCallOutput
    unknown: UnknownVariant
    mcp_list_tools: McpListTools
    mcp_approval_request: McpApprovalRequest
    mcp_approval_response: McpApprovalResponse
    computer_call: ComputerCall
    computer_call_output: ComputerCallOutput
    image_generation_call: ImageGenerationCall
    local_shell_call: LocalShellCall
    local_shell_call_output: LocalShellCallOutput
    apply_patch_call: ApplyPatchCall
    apply_patch_call_output: ApplyPatchCallOutput
    tool_search_call: ToolSearchCall
    tool_search_output: ToolSearchOutput
    additional_tools: AdditionalTools
    configuration_update: ConfigurationUpdate
    compaction: CompactionItem
    compaction_trigger: CompactionTrigger
    item_reference: ItemReference
    program: ProgramItem
    program_output: ProgramOutput
    token_trace: TokenTrace
    def __init__(self, message: _Optional[_Union[MessageItem, _Mapping]] = ..., function_call: _Optional[_Union[FunctionCall, _Mapping]] = ..., function_call_output: _Optional[_Union[FunctionCallOutput, _Mapping]] = ..., reasoning: _Optional[_Union[ReasoningItem, _Mapping]] = ..., mcp_call: _Optional[_Union[McpCall, _Mapping]] = ..., custom_tool_call: _Optional[_Union[CustomToolCall, _Mapping]] = ..., custom_tool_call_output: _Optional[_Union[CustomToolCallOutput, _Mapping]] = ..., web_search_call: _Optional[_Union[WebSearchCall, _Mapping]] = ..., file_search_call: _Optional[_Union[FileSearchCall, _Mapping]] = ..., code_interpreter_call: _Optional[_Union[CodeInterpreterCall, _Mapping]] = ..., shell_call: _Optional[_Union[ShellCall, _Mapping]] = ..., shell_call_output: _Optional[_Union[ShellCallOutput, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ..., mcp_list_tools: _Optional[_Union[McpListTools, _Mapping]] = ..., mcp_approval_request: _Optional[_Union[McpApprovalRequest, _Mapping]] = ..., mcp_approval_response: _Optional[_Union[McpApprovalResponse, _Mapping]] = ..., computer_call: _Optional[_Union[ComputerCall, _Mapping]] = ..., computer_call_output: _Optional[_Union[ComputerCallOutput, _Mapping]] = ..., image_generation_call: _Optional[_Union[ImageGenerationCall, _Mapping]] = ..., local_shell_call: _Optional[_Union[LocalShellCall, _Mapping]] = ..., local_shell_call_output: _Optional[_Union[LocalShellCallOutput, _Mapping]] = ..., apply_patch_call: _Optional[_Union[ApplyPatchCall, _Mapping]] = ..., apply_patch_call_output: _Optional[_Union[ApplyPatchCallOutput, _Mapping]] = ..., tool_search_call: _Optional[_Union[ToolSearchCall, _Mapping]] = ..., tool_search_output: _Optional[_Union[ToolSearchOutput, _Mapping]] = ..., additional_tools: _Optional[_Union[AdditionalTools, _Mapping]] = ..., configuration_update: _Optional[_Union[ConfigurationUpdate, _Mapping]] = ..., compaction: _Optional[_Union[CompactionItem, _Mapping]] = ..., compaction_trigger: _Optional[_Union[CompactionTrigger, _Mapping]] = ..., item_reference: _Optional[_Union[ItemReference, _Mapping]] = ..., program: _Optional[_Union[ProgramItem, _Mapping]] = ..., program_output: _Optional[_Union[ProgramOutput, _Mapping]] = ..., token_trace: _Optional[_Union[TokenTrace, _Mapping]] = ...) -> None: ...

class TokenTrace(_message.Message):
    __slots__ = ("prompt_token_ids", "generation_token_ids", "generation_logprobs", "routed_experts", "policy_version", "sampling")
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    ROUTED_EXPERTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    generation_token_ids: _containers.RepeatedScalarFieldContainer[int]
    generation_logprobs: _containers.RepeatedScalarFieldContainer[float]
    routed_experts: str
    policy_version: int
    sampling: SamplingParams
    def __init__(self, prompt_token_ids: _Optional[_Iterable[int]] = ..., generation_token_ids: _Optional[_Iterable[int]] = ..., generation_logprobs: _Optional[_Iterable[float]] = ..., routed_experts: _Optional[str] = ..., policy_version: _Optional[int] = ..., sampling: _Optional[_Union[SamplingParams, _Mapping]] = ...) -> None: ...

class SamplingParams(_message.Message):
    __slots__ = ("top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    def __init__(self, top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class MessageItem(_message.Message):
    __slots__ = ("role", "content_text", "content_parts", "id", "status", "phase", "json_form")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TEXT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_PARTS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    role: str
    content_text: str
    content_parts: ContentParts
    id: str
    status: str
    phase: str
    json_form: JsonForm
    def __init__(self, role: _Optional[str] = ..., content_text: _Optional[str] = ..., content_parts: _Optional[_Union[ContentParts, _Mapping]] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., phase: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FunctionCall(_message.Message):
    __slots__ = ("call_id", "name", "arguments_json", "id", "status", "namespace", "run_async", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ASYNC_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    arguments_json: str
    id: str
    status: str
    namespace: str
    run_async: bool
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., namespace: _Optional[str] = ..., run_async: bool = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FunctionCallOutput(_message.Message):
    __slots__ = ("call_id", "output_text", "output_parts", "id", "status", "name", "namespace", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PARTS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output_text: str
    output_parts: ContentParts
    id: str
    status: str
    name: str
    namespace: str
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., output_text: _Optional[str] = ..., output_parts: _Optional[_Union[ContentParts, _Mapping]] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolCaller(_message.Message):
    __slots__ = ("direct", "program", "unknown")
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    direct: DirectCaller
    program: ProgramCaller
    unknown: UnknownVariant
    def __init__(self, direct: _Optional[_Union[DirectCaller, _Mapping]] = ..., program: _Optional[_Union[ProgramCaller, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class DirectCaller(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ProgramCaller(_message.Message):
    __slots__ = ("caller_id", "json_form")
    CALLER_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    caller_id: str
    json_form: JsonForm
    def __init__(self, caller_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ReasoningItem(_message.Message):
    __slots__ = ("id", "summary", "content", "encrypted_content", "status", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_CONTENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    summary: _containers.RepeatedCompositeFieldContainer[ContentPart]
    content: _containers.RepeatedCompositeFieldContainer[ContentPart]
    encrypted_content: str
    status: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., summary: _Optional[_Iterable[_Union[ContentPart, _Mapping]]] = ..., content: _Optional[_Iterable[_Union[ContentPart, _Mapping]]] = ..., encrypted_content: _Optional[str] = ..., status: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpCall(_message.Message):
    __slots__ = ("id", "server_label", "name", "arguments_json", "output", "error", "status", "approval_request_id", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_LABEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    server_label: str
    name: str
    arguments_json: str
    output: str
    error: McpCallError
    status: str
    approval_request_id: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., server_label: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., output: _Optional[str] = ..., error: _Optional[_Union[McpCallError, _Mapping]] = ..., status: _Optional[str] = ..., approval_request_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpCallError(_message.Message):
    __slots__ = ("text", "mcp_protocol_error", "mcp_tool_execution_error", "http_error", "unknown")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MCP_PROTOCOL_ERROR_FIELD_NUMBER: _ClassVar[int]
    MCP_TOOL_EXECUTION_ERROR_FIELD_NUMBER: _ClassVar[int]
    HTTP_ERROR_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    text: str
    mcp_protocol_error: McpProtocolError
    mcp_tool_execution_error: McpToolExecutionError
    http_error: McpHttpError
    unknown: UnknownVariant
    def __init__(self, text: _Optional[str] = ..., mcp_protocol_error: _Optional[_Union[McpProtocolError, _Mapping]] = ..., mcp_tool_execution_error: _Optional[_Union[McpToolExecutionError, _Mapping]] = ..., http_error: _Optional[_Union[McpHttpError, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class McpProtocolError(_message.Message):
    __slots__ = ("code", "message", "json_form")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    json_form: JsonForm
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpToolExecutionError(_message.Message):
    __slots__ = ("content_json", "json_form")
    CONTENT_JSON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    content_json: str
    json_form: JsonForm
    def __init__(self, content_json: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpHttpError(_message.Message):
    __slots__ = ("code", "message", "json_form")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    json_form: JsonForm
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpListTools(_message.Message):
    __slots__ = ("id", "server_label", "tools", "error", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_LABEL_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    server_label: str
    tools: _containers.RepeatedCompositeFieldContainer[McpListedTool]
    error: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., server_label: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[McpListedTool, _Mapping]]] = ..., error: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpListedTool(_message.Message):
    __slots__ = ("name", "description", "input_schema_json", "annotations_json", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema_json: str
    annotations_json: str
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., annotations_json: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpApprovalRequest(_message.Message):
    __slots__ = ("id", "server_label", "name", "arguments_json", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_LABEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    server_label: str
    name: str
    arguments_json: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., server_label: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpApprovalResponse(_message.Message):
    __slots__ = ("approval_request_id", "approve", "id", "reason", "json_form")
    APPROVAL_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    approval_request_id: str
    approve: bool
    id: str
    reason: str
    json_form: JsonForm
    def __init__(self, approval_request_id: _Optional[str] = ..., approve: bool = ..., id: _Optional[str] = ..., reason: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CustomToolCall(_message.Message):
    __slots__ = ("call_id", "name", "input", "id", "namespace", "status", "run_async", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RUN_ASYNC_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    input: str
    id: str
    namespace: str
    status: str
    run_async: bool
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., input: _Optional[str] = ..., id: _Optional[str] = ..., namespace: _Optional[str] = ..., status: _Optional[str] = ..., run_async: bool = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CustomToolCallOutput(_message.Message):
    __slots__ = ("call_id", "output_text", "output_parts", "id", "status", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PARTS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output_text: str
    output_parts: ContentParts
    id: str
    status: str
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., output_text: _Optional[str] = ..., output_parts: _Optional[_Union[ContentParts, _Mapping]] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchCall(_message.Message):
    __slots__ = ("id", "status", "action", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: str
    action: WebSearchAction
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., status: _Optional[str] = ..., action: _Optional[_Union[WebSearchAction, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchAction(_message.Message):
    __slots__ = ("search", "open_page", "find_in_page", "unknown")
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    OPEN_PAGE_FIELD_NUMBER: _ClassVar[int]
    FIND_IN_PAGE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    search: SearchAction
    open_page: OpenPageAction
    find_in_page: FindInPageAction
    unknown: UnknownVariant
    def __init__(self, search: _Optional[_Union[SearchAction, _Mapping]] = ..., open_page: _Optional[_Union[OpenPageAction, _Mapping]] = ..., find_in_page: _Optional[_Union[FindInPageAction, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class SearchAction(_message.Message):
    __slots__ = ("query", "queries", "sources", "json_form")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    query: str
    queries: _containers.RepeatedScalarFieldContainer[str]
    sources: _containers.RepeatedCompositeFieldContainer[WebSearchSource]
    json_form: JsonForm
    def __init__(self, query: _Optional[str] = ..., queries: _Optional[_Iterable[str]] = ..., sources: _Optional[_Iterable[_Union[WebSearchSource, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchSource(_message.Message):
    __slots__ = ("type", "url", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    url: str
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., url: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class OpenPageAction(_message.Message):
    __slots__ = ("url", "json_form")
    URL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    url: str
    json_form: JsonForm
    def __init__(self, url: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FindInPageAction(_message.Message):
    __slots__ = ("pattern", "url", "json_form")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    url: str
    json_form: JsonForm
    def __init__(self, pattern: _Optional[str] = ..., url: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FileSearchCall(_message.Message):
    __slots__ = ("id", "status", "queries", "results", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: str
    queries: _containers.RepeatedScalarFieldContainer[str]
    results: _containers.RepeatedCompositeFieldContainer[FileSearchResult]
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., status: _Optional[str] = ..., queries: _Optional[_Iterable[str]] = ..., results: _Optional[_Iterable[_Union[FileSearchResult, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FileSearchResult(_message.Message):
    __slots__ = ("file_id", "filename", "text", "score", "attributes_json", "json_form")
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_JSON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    file_id: str
    filename: str
    text: str
    score: float
    attributes_json: str
    json_form: JsonForm
    def __init__(self, file_id: _Optional[str] = ..., filename: _Optional[str] = ..., text: _Optional[str] = ..., score: _Optional[float] = ..., attributes_json: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CodeInterpreterCall(_message.Message):
    __slots__ = ("id", "status", "container_id", "code", "outputs", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: str
    container_id: str
    code: str
    outputs: _containers.RepeatedCompositeFieldContainer[CodeInterpreterOutput]
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., status: _Optional[str] = ..., container_id: _Optional[str] = ..., code: _Optional[str] = ..., outputs: _Optional[_Iterable[_Union[CodeInterpreterOutput, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CodeInterpreterOutput(_message.Message):
    __slots__ = ("logs", "image", "unknown")
    LOGS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    logs: CodeInterpreterLogs
    image: CodeInterpreterImage
    unknown: UnknownVariant
    def __init__(self, logs: _Optional[_Union[CodeInterpreterLogs, _Mapping]] = ..., image: _Optional[_Union[CodeInterpreterImage, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class CodeInterpreterLogs(_message.Message):
    __slots__ = ("logs", "json_form")
    LOGS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    logs: str
    json_form: JsonForm
    def __init__(self, logs: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CodeInterpreterImage(_message.Message):
    __slots__ = ("url", "json_form")
    URL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    url: str
    json_form: JsonForm
    def __init__(self, url: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellCall(_message.Message):
    __slots__ = ("call_id", "action", "id", "status", "environment", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    action: ShellAction
    id: str
    status: str
    environment: ShellEnvironment
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., action: _Optional[_Union[ShellAction, _Mapping]] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., environment: _Optional[_Union[ShellEnvironment, _Mapping]] = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellAction(_message.Message):
    __slots__ = ("commands", "timeout_ms", "max_output_length", "json_form")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedScalarFieldContainer[str]
    timeout_ms: int
    max_output_length: int
    json_form: JsonForm
    def __init__(self, commands: _Optional[_Iterable[str]] = ..., timeout_ms: _Optional[int] = ..., max_output_length: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellCallOutput(_message.Message):
    __slots__ = ("call_id", "output", "max_output_length", "id", "status", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output: _containers.RepeatedCompositeFieldContainer[ShellCommandOutput]
    max_output_length: int
    id: str
    status: str
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., output: _Optional[_Iterable[_Union[ShellCommandOutput, _Mapping]]] = ..., max_output_length: _Optional[int] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellCommandOutput(_message.Message):
    __slots__ = ("stdout", "stderr", "outcome", "created_by", "json_form")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    stdout: str
    stderr: str
    outcome: ShellOutcome
    created_by: str
    json_form: JsonForm
    def __init__(self, stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., outcome: _Optional[_Union[ShellOutcome, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellOutcome(_message.Message):
    __slots__ = ("timeout", "exit", "unknown")
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    timeout: ShellTimeout
    exit: ShellExit
    unknown: UnknownVariant
    def __init__(self, timeout: _Optional[_Union[ShellTimeout, _Mapping]] = ..., exit: _Optional[_Union[ShellExit, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class ShellTimeout(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellExit(_message.Message):
    __slots__ = ("exit_code", "json_form")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    json_form: JsonForm
    def __init__(self, exit_code: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class LocalShellCall(_message.Message):
    __slots__ = ("id", "call_id", "action", "status", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    call_id: str
    action: LocalShellAction
    status: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., call_id: _Optional[str] = ..., action: _Optional[_Union[LocalShellAction, _Mapping]] = ..., status: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class LocalShellAction(_message.Message):
    __slots__ = ("type", "command", "env", "timeout_ms", "user", "working_directory", "json_form")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    command: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    timeout_ms: int
    user: str
    working_directory: str
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., timeout_ms: _Optional[int] = ..., user: _Optional[str] = ..., working_directory: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class LocalShellCallOutput(_message.Message):
    __slots__ = ("id", "output", "status", "call_id", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    output: str
    status: str
    call_id: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., output: _Optional[str] = ..., status: _Optional[str] = ..., call_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ApplyPatchCall(_message.Message):
    __slots__ = ("call_id", "operation", "status", "id", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    operation: ApplyPatchOperation
    status: str
    id: str
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., operation: _Optional[_Union[ApplyPatchOperation, _Mapping]] = ..., status: _Optional[str] = ..., id: _Optional[str] = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ApplyPatchOperation(_message.Message):
    __slots__ = ("create_file", "update_file", "delete_file", "unknown")
    CREATE_FILE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FILE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FILE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    create_file: CreateFileOperation
    update_file: UpdateFileOperation
    delete_file: DeleteFileOperation
    unknown: UnknownVariant
    def __init__(self, create_file: _Optional[_Union[CreateFileOperation, _Mapping]] = ..., update_file: _Optional[_Union[UpdateFileOperation, _Mapping]] = ..., delete_file: _Optional[_Union[DeleteFileOperation, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class CreateFileOperation(_message.Message):
    __slots__ = ("path", "diff", "json_form")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    path: str
    diff: str
    json_form: JsonForm
    def __init__(self, path: _Optional[str] = ..., diff: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class UpdateFileOperation(_message.Message):
    __slots__ = ("path", "diff", "json_form")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    path: str
    diff: str
    json_form: JsonForm
    def __init__(self, path: _Optional[str] = ..., diff: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class DeleteFileOperation(_message.Message):
    __slots__ = ("path", "json_form")
    PATH_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    path: str
    json_form: JsonForm
    def __init__(self, path: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ApplyPatchCallOutput(_message.Message):
    __slots__ = ("call_id", "status", "output", "id", "caller", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    status: str
    output: str
    id: str
    caller: ToolCaller
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., status: _Optional[str] = ..., output: _Optional[str] = ..., id: _Optional[str] = ..., caller: _Optional[_Union[ToolCaller, _Mapping]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ComputerCall(_message.Message):
    __slots__ = ("id", "call_id", "status", "action", "actions", "pending_safety_checks", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    PENDING_SAFETY_CHECKS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    call_id: str
    status: str
    action: ComputerAction
    actions: _containers.RepeatedCompositeFieldContainer[ComputerAction]
    pending_safety_checks: _containers.RepeatedCompositeFieldContainer[SafetyCheck]
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., call_id: _Optional[str] = ..., status: _Optional[str] = ..., action: _Optional[_Union[ComputerAction, _Mapping]] = ..., actions: _Optional[_Iterable[_Union[ComputerAction, _Mapping]]] = ..., pending_safety_checks: _Optional[_Iterable[_Union[SafetyCheck, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ComputerAction(_message.Message):
    __slots__ = ("click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait", "unknown")
    CLICK_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_CLICK_FIELD_NUMBER: _ClassVar[int]
    DRAG_FIELD_NUMBER: _ClassVar[int]
    KEYPRESS_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    SCREENSHOT_FIELD_NUMBER: _ClassVar[int]
    SCROLL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    click: ClickAction
    double_click: DoubleClickAction
    drag: DragAction
    keypress: KeypressAction
    move: MoveAction
    screenshot: ScreenshotAction
    scroll: ScrollAction
    type: TypeAction
    wait: WaitAction
    unknown: UnknownVariant
    def __init__(self, click: _Optional[_Union[ClickAction, _Mapping]] = ..., double_click: _Optional[_Union[DoubleClickAction, _Mapping]] = ..., drag: _Optional[_Union[DragAction, _Mapping]] = ..., keypress: _Optional[_Union[KeypressAction, _Mapping]] = ..., move: _Optional[_Union[MoveAction, _Mapping]] = ..., screenshot: _Optional[_Union[ScreenshotAction, _Mapping]] = ..., scroll: _Optional[_Union[ScrollAction, _Mapping]] = ..., type: _Optional[_Union[TypeAction, _Mapping]] = ..., wait: _Optional[_Union[WaitAction, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class ClickAction(_message.Message):
    __slots__ = ("button", "x", "y", "keys", "json_form")
    BUTTON_FIELD_NUMBER: _ClassVar[int]
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    button: str
    x: int
    y: int
    keys: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, button: _Optional[str] = ..., x: _Optional[int] = ..., y: _Optional[int] = ..., keys: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class DoubleClickAction(_message.Message):
    __slots__ = ("x", "y", "keys", "json_form")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    x: int
    y: int
    keys: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, x: _Optional[int] = ..., y: _Optional[int] = ..., keys: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class DragAction(_message.Message):
    __slots__ = ("path", "keys", "json_form")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedCompositeFieldContainer[ScreenPoint]
    keys: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, path: _Optional[_Iterable[_Union[ScreenPoint, _Mapping]]] = ..., keys: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ScreenPoint(_message.Message):
    __slots__ = ("x", "y", "json_form")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    x: int
    y: int
    json_form: JsonForm
    def __init__(self, x: _Optional[int] = ..., y: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class KeypressAction(_message.Message):
    __slots__ = ("keys", "json_form")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class MoveAction(_message.Message):
    __slots__ = ("x", "y", "keys", "json_form")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    x: int
    y: int
    keys: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, x: _Optional[int] = ..., y: _Optional[int] = ..., keys: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ScreenshotAction(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ScrollAction(_message.Message):
    __slots__ = ("x", "y", "scroll_x", "scroll_y", "keys", "json_form")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    SCROLL_X_FIELD_NUMBER: _ClassVar[int]
    SCROLL_Y_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    x: int
    y: int
    scroll_x: int
    scroll_y: int
    keys: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, x: _Optional[int] = ..., y: _Optional[int] = ..., scroll_x: _Optional[int] = ..., scroll_y: _Optional[int] = ..., keys: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class TypeAction(_message.Message):
    __slots__ = ("text", "json_form")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    text: str
    json_form: JsonForm
    def __init__(self, text: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WaitAction(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class SafetyCheck(_message.Message):
    __slots__ = ("id", "code", "message", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    code: str
    message: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ComputerCallOutput(_message.Message):
    __slots__ = ("call_id", "output", "id", "status", "acknowledged_safety_checks", "created_by", "json_form")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_SAFETY_CHECKS_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output: ComputerScreenshot
    id: str
    status: str
    acknowledged_safety_checks: _containers.RepeatedCompositeFieldContainer[SafetyCheck]
    created_by: str
    json_form: JsonForm
    def __init__(self, call_id: _Optional[str] = ..., output: _Optional[_Union[ComputerScreenshot, _Mapping]] = ..., id: _Optional[str] = ..., status: _Optional[str] = ..., acknowledged_safety_checks: _Optional[_Iterable[_Union[SafetyCheck, _Mapping]]] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ComputerScreenshot(_message.Message):
    __slots__ = ("type", "image_url", "file_id", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_URL_FIELD_NUMBER: _ClassVar[int]
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    image_url: str
    file_id: str
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., image_url: _Optional[str] = ..., file_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageGenerationCall(_message.Message):
    __slots__ = ("id", "status", "result", "action", "background", "output_format", "quality", "size", "revised_prompt", "error", "svg_usage", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    REVISED_PROMPT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SVG_USAGE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: str
    result: str
    action: str
    background: str
    output_format: str
    quality: str
    size: str
    revised_prompt: str
    error: ImageGenerationError
    svg_usage: SvgUsage
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., status: _Optional[str] = ..., result: _Optional[str] = ..., action: _Optional[str] = ..., background: _Optional[str] = ..., output_format: _Optional[str] = ..., quality: _Optional[str] = ..., size: _Optional[str] = ..., revised_prompt: _Optional[str] = ..., error: _Optional[_Union[ImageGenerationError, _Mapping]] = ..., svg_usage: _Optional[_Union[SvgUsage, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageGenerationError(_message.Message):
    __slots__ = ("type", "message", "code", "param", "moderation_details", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    MODERATION_DETAILS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    code: str
    param: str
    moderation_details: ImageModerationDetails
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., code: _Optional[str] = ..., param: _Optional[str] = ..., moderation_details: _Optional[_Union[ImageModerationDetails, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageModerationDetails(_message.Message):
    __slots__ = ("moderation_stage", "categories", "json_form")
    MODERATION_STAGE_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    moderation_stage: str
    categories: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, moderation_stage: _Optional[str] = ..., categories: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class SvgUsage(_message.Message):
    __slots__ = ("model", "input_tokens", "output_tokens", "reasoning_tokens", "total_tokens", "json_form")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    model: str
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    total_tokens: int
    json_form: JsonForm
    def __init__(self, model: _Optional[str] = ..., input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., reasoning_tokens: _Optional[int] = ..., total_tokens: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolSearchCall(_message.Message):
    __slots__ = ("id", "call_id", "arguments_json", "execution", "status", "created_by", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    call_id: str
    arguments_json: str
    execution: str
    status: str
    created_by: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., call_id: _Optional[str] = ..., arguments_json: _Optional[str] = ..., execution: _Optional[str] = ..., status: _Optional[str] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolSearchOutput(_message.Message):
    __slots__ = ("id", "call_id", "tools", "execution", "status", "created_by", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    call_id: str
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    execution: str
    status: str
    created_by: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., call_id: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., execution: _Optional[str] = ..., status: _Optional[str] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class AdditionalTools(_message.Message):
    __slots__ = ("id", "role", "tools", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    role: str
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., role: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ConfigurationUpdate(_message.Message):
    __slots__ = ("id", "reasoning", "text", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    reasoning: ReasoningConfig
    text: TextConfig
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., reasoning: _Optional[_Union[ReasoningConfig, _Mapping]] = ..., text: _Optional[_Union[TextConfig, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CompactionItem(_message.Message):
    __slots__ = ("encrypted_content", "id", "created_by", "json_form")
    ENCRYPTED_CONTENT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    encrypted_content: str
    id: str
    created_by: str
    json_form: JsonForm
    def __init__(self, encrypted_content: _Optional[str] = ..., id: _Optional[str] = ..., created_by: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CompactionTrigger(_message.Message):
    __slots__ = ("id", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ItemReference(_message.Message):
    __slots__ = ("id", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ProgramItem(_message.Message):
    __slots__ = ("id", "call_id", "code", "fingerprint", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    call_id: str
    code: str
    fingerprint: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., call_id: _Optional[str] = ..., code: _Optional[str] = ..., fingerprint: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ProgramOutput(_message.Message):
    __slots__ = ("id", "call_id", "result", "status", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    call_id: str
    result: str
    status: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., call_id: _Optional[str] = ..., result: _Optional[str] = ..., status: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ContentParts(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[ContentPart]
    def __init__(self, parts: _Optional[_Iterable[_Union[ContentPart, _Mapping]]] = ...) -> None: ...

class ContentPart(_message.Message):
    __slots__ = ("input_text", "output_text", "summary_text", "reasoning_text", "refusal", "input_image", "input_file", "input_video", "input_audio", "unknown")
    INPUT_TEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TEXT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_TEXT_FIELD_NUMBER: _ClassVar[int]
    REASONING_TEXT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    INPUT_IMAGE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FILE_FIELD_NUMBER: _ClassVar[int]
    INPUT_VIDEO_FIELD_NUMBER: _ClassVar[int]
    INPUT_AUDIO_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    input_text: InputText
    output_text: OutputText
    summary_text: SummaryText
    reasoning_text: ReasoningText
    refusal: Refusal
    input_image: InputImage
    input_file: InputFile
    input_video: InputVideo
    input_audio: InputAudio
    unknown: UnknownVariant
    def __init__(self, input_text: _Optional[_Union[InputText, _Mapping]] = ..., output_text: _Optional[_Union[OutputText, _Mapping]] = ..., summary_text: _Optional[_Union[SummaryText, _Mapping]] = ..., reasoning_text: _Optional[_Union[ReasoningText, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., input_image: _Optional[_Union[InputImage, _Mapping]] = ..., input_file: _Optional[_Union[InputFile, _Mapping]] = ..., input_video: _Optional[_Union[InputVideo, _Mapping]] = ..., input_audio: _Optional[_Union[InputAudio, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class InputText(_message.Message):
    __slots__ = ("text", "prompt_cache_breakpoint", "json_form")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_BREAKPOINT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    text: str
    prompt_cache_breakpoint: PromptCacheBreakpoint
    json_form: JsonForm
    def __init__(self, text: _Optional[str] = ..., prompt_cache_breakpoint: _Optional[_Union[PromptCacheBreakpoint, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class OutputText(_message.Message):
    __slots__ = ("text", "annotations", "logprobs", "json_form")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    text: str
    annotations: _containers.RepeatedCompositeFieldContainer[Annotation]
    logprobs: _containers.RepeatedCompositeFieldContainer[OutputLogprob]
    json_form: JsonForm
    def __init__(self, text: _Optional[str] = ..., annotations: _Optional[_Iterable[_Union[Annotation, _Mapping]]] = ..., logprobs: _Optional[_Iterable[_Union[OutputLogprob, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class SummaryText(_message.Message):
    __slots__ = ("text", "json_form")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    text: str
    json_form: JsonForm
    def __init__(self, text: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ReasoningText(_message.Message):
    __slots__ = ("text", "json_form")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    text: str
    json_form: JsonForm
    def __init__(self, text: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("refusal", "json_form")
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    refusal: str
    json_form: JsonForm
    def __init__(self, refusal: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InputImage(_message.Message):
    __slots__ = ("image_url", "detail", "file_id", "prompt_cache_breakpoint", "json_form")
    IMAGE_URL_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_BREAKPOINT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    image_url: str
    detail: str
    file_id: str
    prompt_cache_breakpoint: PromptCacheBreakpoint
    json_form: JsonForm
    def __init__(self, image_url: _Optional[str] = ..., detail: _Optional[str] = ..., file_id: _Optional[str] = ..., prompt_cache_breakpoint: _Optional[_Union[PromptCacheBreakpoint, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InputFile(_message.Message):
    __slots__ = ("file_id", "file_url", "file_data", "filename", "detail", "prompt_cache_breakpoint", "json_form")
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    FILE_URL_FIELD_NUMBER: _ClassVar[int]
    FILE_DATA_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_BREAKPOINT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    file_id: str
    file_url: str
    file_data: str
    filename: str
    detail: str
    prompt_cache_breakpoint: PromptCacheBreakpoint
    json_form: JsonForm
    def __init__(self, file_id: _Optional[str] = ..., file_url: _Optional[str] = ..., file_data: _Optional[str] = ..., filename: _Optional[str] = ..., detail: _Optional[str] = ..., prompt_cache_breakpoint: _Optional[_Union[PromptCacheBreakpoint, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InputVideo(_message.Message):
    __slots__ = ("video_url", "video", "json_form")
    VIDEO_URL_FIELD_NUMBER: _ClassVar[int]
    VIDEO_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    video_url: str
    video: str
    json_form: JsonForm
    def __init__(self, video_url: _Optional[str] = ..., video: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InputAudio(_message.Message):
    __slots__ = ("input_audio", "json_form")
    INPUT_AUDIO_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    input_audio: AudioData
    json_form: JsonForm
    def __init__(self, input_audio: _Optional[_Union[AudioData, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class AudioData(_message.Message):
    __slots__ = ("data", "format", "json_form")
    DATA_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    data: str
    format: str
    json_form: JsonForm
    def __init__(self, data: _Optional[str] = ..., format: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class PromptCacheBreakpoint(_message.Message):
    __slots__ = ("mode", "ttl", "json_form")
    MODE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    mode: str
    ttl: str
    json_form: JsonForm
    def __init__(self, mode: _Optional[str] = ..., ttl: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Annotation(_message.Message):
    __slots__ = ("url_citation", "file_citation", "container_file_citation", "file_path", "unknown")
    URL_CITATION_FIELD_NUMBER: _ClassVar[int]
    FILE_CITATION_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FILE_CITATION_FIELD_NUMBER: _ClassVar[int]
    FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    url_citation: UrlCitation
    file_citation: FileCitation
    container_file_citation: ContainerFileCitation
    file_path: FilePathAnnotation
    unknown: UnknownVariant
    def __init__(self, url_citation: _Optional[_Union[UrlCitation, _Mapping]] = ..., file_citation: _Optional[_Union[FileCitation, _Mapping]] = ..., container_file_citation: _Optional[_Union[ContainerFileCitation, _Mapping]] = ..., file_path: _Optional[_Union[FilePathAnnotation, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class UrlCitation(_message.Message):
    __slots__ = ("url", "title", "start_index", "end_index", "json_form")
    URL_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    START_INDEX_FIELD_NUMBER: _ClassVar[int]
    END_INDEX_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    url: str
    title: str
    start_index: int
    end_index: int
    json_form: JsonForm
    def __init__(self, url: _Optional[str] = ..., title: _Optional[str] = ..., start_index: _Optional[int] = ..., end_index: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FileCitation(_message.Message):
    __slots__ = ("file_id", "filename", "index", "json_form")
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    file_id: str
    filename: str
    index: int
    json_form: JsonForm
    def __init__(self, file_id: _Optional[str] = ..., filename: _Optional[str] = ..., index: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ContainerFileCitation(_message.Message):
    __slots__ = ("container_id", "file_id", "filename", "start_index", "end_index", "json_form")
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    START_INDEX_FIELD_NUMBER: _ClassVar[int]
    END_INDEX_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    container_id: str
    file_id: str
    filename: str
    start_index: int
    end_index: int
    json_form: JsonForm
    def __init__(self, container_id: _Optional[str] = ..., file_id: _Optional[str] = ..., filename: _Optional[str] = ..., start_index: _Optional[int] = ..., end_index: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FilePathAnnotation(_message.Message):
    __slots__ = ("file_id", "index", "json_form")
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    file_id: str
    index: int
    json_form: JsonForm
    def __init__(self, file_id: _Optional[str] = ..., index: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class OutputLogprob(_message.Message):
    __slots__ = ("token", "logprob", "bytes", "top_logprobs", "json_form")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    token: str
    logprob: float
    bytes: _containers.RepeatedScalarFieldContainer[int]
    top_logprobs: _containers.RepeatedCompositeFieldContainer[TopLogprob]
    json_form: JsonForm
    def __init__(self, token: _Optional[str] = ..., logprob: _Optional[float] = ..., bytes: _Optional[_Iterable[int]] = ..., top_logprobs: _Optional[_Iterable[_Union[TopLogprob, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class TopLogprob(_message.Message):
    __slots__ = ("token", "logprob", "bytes", "json_form")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    token: str
    logprob: float
    bytes: _containers.RepeatedScalarFieldContainer[int]
    json_form: JsonForm
    def __init__(self, token: _Optional[str] = ..., logprob: _Optional[float] = ..., bytes: _Optional[_Iterable[int]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("function", "custom", "mcp", "web_search", "file_search", "code_interpreter", "shell", "apply_patch", "unknown", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "computer", "computer_use_preview", "image_generation", "local_shell", "namespace", "tool_search", "programmatic_tool_calling")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    MCP_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_FIELD_NUMBER: _ClassVar[int]
    FILE_SEARCH_FIELD_NUMBER: _ClassVar[int]
    CODE_INTERPRETER_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    APPLY_PATCH_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_2025_08_26_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_PREVIEW_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_PREVIEW_2025_03_11_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_PREVIEW_FIELD_NUMBER: _ClassVar[int]
    IMAGE_GENERATION_FIELD_NUMBER: _ClassVar[int]
    LOCAL_SHELL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOOL_SEARCH_FIELD_NUMBER: _ClassVar[int]
    PROGRAMMATIC_TOOL_CALLING_FIELD_NUMBER: _ClassVar[int]
    function: FunctionTool
    custom: CustomTool
    mcp: McpTool
    web_search: WebSearchTool
    file_search: FileSearchTool
    code_interpreter: CodeInterpreterTool
    shell: ShellTool
    apply_patch: ApplyPatchTool
    unknown: UnknownVariant
    web_search_2025_08_26: WebSearchTool
    web_search_preview: WebSearchPreviewTool
    web_search_preview_2025_03_11: WebSearchPreviewTool
    computer: ComputerTool
    computer_use_preview: ComputerUsePreviewTool
    image_generation: ImageGenerationTool
    local_shell: LocalShellTool
    namespace: NamespaceTool
    tool_search: ToolSearchTool
    programmatic_tool_calling: ProgrammaticToolCallingTool
    def __init__(self, function: _Optional[_Union[FunctionTool, _Mapping]] = ..., custom: _Optional[_Union[CustomTool, _Mapping]] = ..., mcp: _Optional[_Union[McpTool, _Mapping]] = ..., web_search: _Optional[_Union[WebSearchTool, _Mapping]] = ..., file_search: _Optional[_Union[FileSearchTool, _Mapping]] = ..., code_interpreter: _Optional[_Union[CodeInterpreterTool, _Mapping]] = ..., shell: _Optional[_Union[ShellTool, _Mapping]] = ..., apply_patch: _Optional[_Union[ApplyPatchTool, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ..., web_search_2025_08_26: _Optional[_Union[WebSearchTool, _Mapping]] = ..., web_search_preview: _Optional[_Union[WebSearchPreviewTool, _Mapping]] = ..., web_search_preview_2025_03_11: _Optional[_Union[WebSearchPreviewTool, _Mapping]] = ..., computer: _Optional[_Union[ComputerTool, _Mapping]] = ..., computer_use_preview: _Optional[_Union[ComputerUsePreviewTool, _Mapping]] = ..., image_generation: _Optional[_Union[ImageGenerationTool, _Mapping]] = ..., local_shell: _Optional[_Union[LocalShellTool, _Mapping]] = ..., namespace: _Optional[_Union[NamespaceTool, _Mapping]] = ..., tool_search: _Optional[_Union[ToolSearchTool, _Mapping]] = ..., programmatic_tool_calling: _Optional[_Union[ProgrammaticToolCallingTool, _Mapping]] = ...) -> None: ...

class FunctionTool(_message.Message):
    __slots__ = ("name", "description", "parameters_json", "strict", "output_schema_json", "defer_loading", "run_async", "allowed_callers", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    DEFER_LOADING_FIELD_NUMBER: _ClassVar[int]
    RUN_ASYNC_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CALLERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters_json: str
    strict: bool
    output_schema_json: str
    defer_loading: bool
    run_async: bool
    allowed_callers: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[str] = ..., strict: bool = ..., output_schema_json: _Optional[str] = ..., defer_loading: bool = ..., run_async: bool = ..., allowed_callers: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CustomTool(_message.Message):
    __slots__ = ("name", "description", "format", "defer_loading", "run_async", "allowed_callers", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DEFER_LOADING_FIELD_NUMBER: _ClassVar[int]
    RUN_ASYNC_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CALLERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    format: CustomToolFormat
    defer_loading: bool
    run_async: bool
    allowed_callers: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., format: _Optional[_Union[CustomToolFormat, _Mapping]] = ..., defer_loading: bool = ..., run_async: bool = ..., allowed_callers: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CustomToolFormat(_message.Message):
    __slots__ = ("text", "grammar", "unknown")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    GRAMMAR_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    text: TextInputFormat
    grammar: GrammarInputFormat
    unknown: UnknownVariant
    def __init__(self, text: _Optional[_Union[TextInputFormat, _Mapping]] = ..., grammar: _Optional[_Union[GrammarInputFormat, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class TextInputFormat(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class GrammarInputFormat(_message.Message):
    __slots__ = ("syntax", "definition", "json_form")
    SYNTAX_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    syntax: str
    definition: str
    json_form: JsonForm
    def __init__(self, syntax: _Optional[str] = ..., definition: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpTool(_message.Message):
    __slots__ = ("server_label", "server_url", "connector_id", "tunnel_id", "authorization", "headers", "allowed_tool_names", "allowed_tool_filter", "require_approval_mode", "require_approval_filter", "server_description", "defer_loading", "allowed_callers", "json_form")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SERVER_LABEL_FIELD_NUMBER: _ClassVar[int]
    SERVER_URL_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    TUNNEL_ID_FIELD_NUMBER: _ClassVar[int]
    AUTHORIZATION_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TOOL_FILTER_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_APPROVAL_MODE_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_APPROVAL_FILTER_FIELD_NUMBER: _ClassVar[int]
    SERVER_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DEFER_LOADING_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CALLERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    server_label: str
    server_url: str
    connector_id: str
    tunnel_id: str
    authorization: str
    headers: _containers.ScalarMap[str, str]
    allowed_tool_names: StringList
    allowed_tool_filter: McpToolFilter
    require_approval_mode: str
    require_approval_filter: McpApprovalFilter
    server_description: str
    defer_loading: bool
    allowed_callers: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, server_label: _Optional[str] = ..., server_url: _Optional[str] = ..., connector_id: _Optional[str] = ..., tunnel_id: _Optional[str] = ..., authorization: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., allowed_tool_names: _Optional[_Union[StringList, _Mapping]] = ..., allowed_tool_filter: _Optional[_Union[McpToolFilter, _Mapping]] = ..., require_approval_mode: _Optional[str] = ..., require_approval_filter: _Optional[_Union[McpApprovalFilter, _Mapping]] = ..., server_description: _Optional[str] = ..., defer_loading: bool = ..., allowed_callers: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpToolFilter(_message.Message):
    __slots__ = ("tool_names", "read_only", "json_form")
    TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    tool_names: _containers.RepeatedScalarFieldContainer[str]
    read_only: bool
    json_form: JsonForm
    def __init__(self, tool_names: _Optional[_Iterable[str]] = ..., read_only: bool = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpApprovalFilter(_message.Message):
    __slots__ = ("always", "never", "json_form")
    ALWAYS_FIELD_NUMBER: _ClassVar[int]
    NEVER_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    always: McpToolFilter
    never: McpToolFilter
    json_form: JsonForm
    def __init__(self, always: _Optional[_Union[McpToolFilter, _Mapping]] = ..., never: _Optional[_Union[McpToolFilter, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchTool(_message.Message):
    __slots__ = ("search_context_size", "filters", "user_location", "external_web_access", "json_form")
    SEARCH_CONTEXT_SIZE_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    USER_LOCATION_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_WEB_ACCESS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    search_context_size: str
    filters: WebSearchFilters
    user_location: UserLocation
    external_web_access: bool
    json_form: JsonForm
    def __init__(self, search_context_size: _Optional[str] = ..., filters: _Optional[_Union[WebSearchFilters, _Mapping]] = ..., user_location: _Optional[_Union[UserLocation, _Mapping]] = ..., external_web_access: bool = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchFilters(_message.Message):
    __slots__ = ("allowed_domains", "json_form")
    ALLOWED_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    allowed_domains: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, allowed_domains: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class UserLocation(_message.Message):
    __slots__ = ("type", "city", "region", "country", "timezone", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CITY_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    COUNTRY_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    city: str
    region: str
    country: str
    timezone: str
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., city: _Optional[str] = ..., region: _Optional[str] = ..., country: _Optional[str] = ..., timezone: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchPreviewTool(_message.Message):
    __slots__ = ("search_context_size", "user_location", "search_content_types", "json_form")
    SEARCH_CONTEXT_SIZE_FIELD_NUMBER: _ClassVar[int]
    USER_LOCATION_FIELD_NUMBER: _ClassVar[int]
    SEARCH_CONTENT_TYPES_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    search_context_size: str
    user_location: UserLocation
    search_content_types: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, search_context_size: _Optional[str] = ..., user_location: _Optional[_Union[UserLocation, _Mapping]] = ..., search_content_types: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FileSearchTool(_message.Message):
    __slots__ = ("vector_store_ids", "max_num_results", "filters", "ranking_options", "json_form")
    VECTOR_STORE_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_RESULTS_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    RANKING_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    vector_store_ids: _containers.RepeatedScalarFieldContainer[str]
    max_num_results: int
    filters: FileSearchFilter
    ranking_options: RankingOptions
    json_form: JsonForm
    def __init__(self, vector_store_ids: _Optional[_Iterable[str]] = ..., max_num_results: _Optional[int] = ..., filters: _Optional[_Union[FileSearchFilter, _Mapping]] = ..., ranking_options: _Optional[_Union[RankingOptions, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class FileSearchFilter(_message.Message):
    __slots__ = ("type", "key", "value_json", "filters", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    key: str
    value_json: str
    filters: _containers.RepeatedCompositeFieldContainer[FileSearchFilter]
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., key: _Optional[str] = ..., value_json: _Optional[str] = ..., filters: _Optional[_Iterable[_Union[FileSearchFilter, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class RankingOptions(_message.Message):
    __slots__ = ("ranker", "score_threshold", "hybrid_search", "json_form")
    RANKER_FIELD_NUMBER: _ClassVar[int]
    SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    HYBRID_SEARCH_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    ranker: str
    score_threshold: float
    hybrid_search: HybridSearch
    json_form: JsonForm
    def __init__(self, ranker: _Optional[str] = ..., score_threshold: _Optional[float] = ..., hybrid_search: _Optional[_Union[HybridSearch, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class HybridSearch(_message.Message):
    __slots__ = ("embedding_weight", "text_weight", "json_form")
    EMBEDDING_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TEXT_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    embedding_weight: float
    text_weight: float
    json_form: JsonForm
    def __init__(self, embedding_weight: _Optional[float] = ..., text_weight: _Optional[float] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CodeInterpreterTool(_message.Message):
    __slots__ = ("container_id", "container_auto", "allowed_callers", "json_form")
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_AUTO_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CALLERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    container_id: str
    container_auto: CodeInterpreterContainer
    allowed_callers: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, container_id: _Optional[str] = ..., container_auto: _Optional[_Union[CodeInterpreterContainer, _Mapping]] = ..., allowed_callers: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CodeInterpreterContainer(_message.Message):
    __slots__ = ("type", "file_ids", "memory_limit", "network_policy", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    FILE_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    NETWORK_POLICY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    file_ids: _containers.RepeatedScalarFieldContainer[str]
    memory_limit: str
    network_policy: NetworkPolicy
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., file_ids: _Optional[_Iterable[str]] = ..., memory_limit: _Optional[str] = ..., network_policy: _Optional[_Union[NetworkPolicy, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class NetworkPolicy(_message.Message):
    __slots__ = ("disabled", "allowlist", "unknown")
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    ALLOWLIST_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    disabled: NetworkDisabled
    allowlist: NetworkAllowlist
    unknown: UnknownVariant
    def __init__(self, disabled: _Optional[_Union[NetworkDisabled, _Mapping]] = ..., allowlist: _Optional[_Union[NetworkAllowlist, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class NetworkDisabled(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class NetworkAllowlist(_message.Message):
    __slots__ = ("allowed_domains", "domain_secrets", "json_form")
    ALLOWED_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_SECRETS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    allowed_domains: _containers.RepeatedScalarFieldContainer[str]
    domain_secrets: _containers.RepeatedCompositeFieldContainer[DomainSecret]
    json_form: JsonForm
    def __init__(self, allowed_domains: _Optional[_Iterable[str]] = ..., domain_secrets: _Optional[_Iterable[_Union[DomainSecret, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class DomainSecret(_message.Message):
    __slots__ = ("domain", "name", "value", "json_form")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    domain: str
    name: str
    value: str
    json_form: JsonForm
    def __init__(self, domain: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellTool(_message.Message):
    __slots__ = ("environment", "allowed_callers", "json_form")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CALLERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    environment: ShellEnvironment
    allowed_callers: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, environment: _Optional[_Union[ShellEnvironment, _Mapping]] = ..., allowed_callers: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellEnvironment(_message.Message):
    __slots__ = ("local", "container_auto", "container_reference", "unknown")
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_AUTO_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    local: LocalEnvironment
    container_auto: ContainerAutoEnvironment
    container_reference: ContainerReferenceEnvironment
    unknown: UnknownVariant
    def __init__(self, local: _Optional[_Union[LocalEnvironment, _Mapping]] = ..., container_auto: _Optional[_Union[ContainerAutoEnvironment, _Mapping]] = ..., container_reference: _Optional[_Union[ContainerReferenceEnvironment, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class LocalEnvironment(_message.Message):
    __slots__ = ("skills", "json_form")
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    skills: _containers.RepeatedCompositeFieldContainer[LocalSkill]
    json_form: JsonForm
    def __init__(self, skills: _Optional[_Iterable[_Union[LocalSkill, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class LocalSkill(_message.Message):
    __slots__ = ("name", "description", "path", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    path: str
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., path: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ContainerAutoEnvironment(_message.Message):
    __slots__ = ("file_ids", "memory_limit", "network_policy", "skills", "json_form")
    FILE_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    NETWORK_POLICY_FIELD_NUMBER: _ClassVar[int]
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    file_ids: _containers.RepeatedScalarFieldContainer[str]
    memory_limit: str
    network_policy: NetworkPolicy
    skills: _containers.RepeatedCompositeFieldContainer[ContainerSkill]
    json_form: JsonForm
    def __init__(self, file_ids: _Optional[_Iterable[str]] = ..., memory_limit: _Optional[str] = ..., network_policy: _Optional[_Union[NetworkPolicy, _Mapping]] = ..., skills: _Optional[_Iterable[_Union[ContainerSkill, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ContainerReferenceEnvironment(_message.Message):
    __slots__ = ("container_id", "json_form")
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    container_id: str
    json_form: JsonForm
    def __init__(self, container_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ContainerSkill(_message.Message):
    __slots__ = ("skill_reference", "inline", "unknown")
    SKILL_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    skill_reference: SkillReference
    inline: InlineSkill
    unknown: UnknownVariant
    def __init__(self, skill_reference: _Optional[_Union[SkillReference, _Mapping]] = ..., inline: _Optional[_Union[InlineSkill, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class SkillReference(_message.Message):
    __slots__ = ("skill_id", "version", "json_form")
    SKILL_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    skill_id: str
    version: str
    json_form: JsonForm
    def __init__(self, skill_id: _Optional[str] = ..., version: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InlineSkill(_message.Message):
    __slots__ = ("name", "description", "source", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    source: InlineSkillSource
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., source: _Optional[_Union[InlineSkillSource, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InlineSkillSource(_message.Message):
    __slots__ = ("type", "media_type", "data", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    media_type: str
    data: str
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., media_type: _Optional[str] = ..., data: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ApplyPatchTool(_message.Message):
    __slots__ = ("allowed_callers", "json_form")
    ALLOWED_CALLERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    allowed_callers: _containers.RepeatedScalarFieldContainer[str]
    json_form: JsonForm
    def __init__(self, allowed_callers: _Optional[_Iterable[str]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ComputerTool(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ComputerUsePreviewTool(_message.Message):
    __slots__ = ("display_width", "display_height", "environment", "json_form")
    DISPLAY_WIDTH_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    display_width: int
    display_height: int
    environment: str
    json_form: JsonForm
    def __init__(self, display_width: _Optional[int] = ..., display_height: _Optional[int] = ..., environment: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageGenerationTool(_message.Message):
    __slots__ = ("model", "action", "background", "quality", "size", "output_format", "output_compression", "moderation", "partial_images", "input_fidelity", "input_image_mask", "complexity", "frame_count", "frame_duration_ms", "svg", "json_form")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    MODERATION_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_IMAGES_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIDELITY_FIELD_NUMBER: _ClassVar[int]
    INPUT_IMAGE_MASK_FIELD_NUMBER: _ClassVar[int]
    COMPLEXITY_FIELD_NUMBER: _ClassVar[int]
    FRAME_COUNT_FIELD_NUMBER: _ClassVar[int]
    FRAME_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    SVG_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    model: str
    action: str
    background: str
    quality: str
    size: str
    output_format: str
    output_compression: int
    moderation: str
    partial_images: int
    input_fidelity: str
    input_image_mask: ImageMask
    complexity: str
    frame_count: int
    frame_duration_ms: int
    svg: SvgOptions
    json_form: JsonForm
    def __init__(self, model: _Optional[str] = ..., action: _Optional[str] = ..., background: _Optional[str] = ..., quality: _Optional[str] = ..., size: _Optional[str] = ..., output_format: _Optional[str] = ..., output_compression: _Optional[int] = ..., moderation: _Optional[str] = ..., partial_images: _Optional[int] = ..., input_fidelity: _Optional[str] = ..., input_image_mask: _Optional[_Union[ImageMask, _Mapping]] = ..., complexity: _Optional[str] = ..., frame_count: _Optional[int] = ..., frame_duration_ms: _Optional[int] = ..., svg: _Optional[_Union[SvgOptions, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageMask(_message.Message):
    __slots__ = ("image_url", "file_id", "json_form")
    IMAGE_URL_FIELD_NUMBER: _ClassVar[int]
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    image_url: str
    file_id: str
    json_form: JsonForm
    def __init__(self, image_url: _Optional[str] = ..., file_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class SvgOptions(_message.Message):
    __slots__ = ("model", "reasoning", "json_form")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    model: str
    reasoning: SvgReasoning
    json_form: JsonForm
    def __init__(self, model: _Optional[str] = ..., reasoning: _Optional[_Union[SvgReasoning, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class SvgReasoning(_message.Message):
    __slots__ = ("effort", "json_form")
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    effort: str
    json_form: JsonForm
    def __init__(self, effort: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class LocalShellTool(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class NamespaceTool(_message.Message):
    __slots__ = ("name", "description", "tools", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolSearchTool(_message.Message):
    __slots__ = ("execution", "description", "parameters_json", "json_form")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    execution: str
    description: str
    parameters_json: str
    json_form: JsonForm
    def __init__(self, execution: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ProgrammaticToolCallingTool(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolChoice(_message.Message):
    __slots__ = ("mode", "function", "allowed_tools", "mcp", "custom", "apply_patch", "shell", "programmatic_tool_calling", "unknown", "file_search", "web_search_preview", "web_search_preview_2025_03_11", "computer", "computer_use", "computer_use_preview", "image_generation", "code_interpreter")
    MODE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    MCP_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    APPLY_PATCH_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    PROGRAMMATIC_TOOL_CALLING_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    FILE_SEARCH_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_PREVIEW_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_PREVIEW_2025_03_11_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_PREVIEW_FIELD_NUMBER: _ClassVar[int]
    IMAGE_GENERATION_FIELD_NUMBER: _ClassVar[int]
    CODE_INTERPRETER_FIELD_NUMBER: _ClassVar[int]
    mode: str
    function: FunctionToolChoice
    allowed_tools: AllowedToolsChoice
    mcp: McpToolChoice
    custom: CustomToolChoice
    apply_patch: ApplyPatchToolChoice
    shell: ShellToolChoice
    programmatic_tool_calling: ProgrammaticToolChoice
    unknown: UnknownVariant
    file_search: HostedToolChoice
    web_search_preview: HostedToolChoice
    web_search_preview_2025_03_11: HostedToolChoice
    computer: HostedToolChoice
    computer_use: HostedToolChoice
    computer_use_preview: HostedToolChoice
    image_generation: HostedToolChoice
    code_interpreter: HostedToolChoice
    def __init__(self, mode: _Optional[str] = ..., function: _Optional[_Union[FunctionToolChoice, _Mapping]] = ..., allowed_tools: _Optional[_Union[AllowedToolsChoice, _Mapping]] = ..., mcp: _Optional[_Union[McpToolChoice, _Mapping]] = ..., custom: _Optional[_Union[CustomToolChoice, _Mapping]] = ..., apply_patch: _Optional[_Union[ApplyPatchToolChoice, _Mapping]] = ..., shell: _Optional[_Union[ShellToolChoice, _Mapping]] = ..., programmatic_tool_calling: _Optional[_Union[ProgrammaticToolChoice, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ..., file_search: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., web_search_preview: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., web_search_preview_2025_03_11: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., computer: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., computer_use: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., computer_use_preview: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., image_generation: _Optional[_Union[HostedToolChoice, _Mapping]] = ..., code_interpreter: _Optional[_Union[HostedToolChoice, _Mapping]] = ...) -> None: ...

class FunctionToolChoice(_message.Message):
    __slots__ = ("name", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class AllowedToolsChoice(_message.Message):
    __slots__ = ("mode", "tools", "json_form")
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    mode: str
    tools: _containers.RepeatedCompositeFieldContainer[ToolName]
    json_form: JsonForm
    def __init__(self, mode: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[ToolName, _Mapping]]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolName(_message.Message):
    __slots__ = ("type", "name", "server_label", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERVER_LABEL_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    server_label: str
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ..., server_label: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class McpToolChoice(_message.Message):
    __slots__ = ("server_label", "name", "json_form")
    SERVER_LABEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    server_label: str
    name: str
    json_form: JsonForm
    def __init__(self, server_label: _Optional[str] = ..., name: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CustomToolChoice(_message.Message):
    __slots__ = ("name", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ApplyPatchToolChoice(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ShellToolChoice(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ProgrammaticToolChoice(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class HostedToolChoice(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ResponseCreateParams(_message.Message):
    __slots__ = ("input_text", "input_items", "instructions", "tools", "model", "temperature", "top_p", "max_output_tokens", "tool_choice", "parallel_tool_calls", "metadata", "reasoning", "text", "top_logprobs", "include", "max_tool_calls", "previous_response_id", "store", "stream", "stream_options", "truncation", "service_tier", "user", "safety_identifier", "prompt", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "background", "background_options", "conversation_id", "conversation_object", "context_management", "moderation", "image", "access_programs", "json_form")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INPUT_TEXT_FIELD_NUMBER: _ClassVar[int]
    INPUT_ITEMS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_TIER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SAFETY_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_KEY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_RETENTION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_OBJECT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_MANAGEMENT_FIELD_NUMBER: _ClassVar[int]
    MODERATION_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    ACCESS_PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    input_text: str
    input_items: ItemList
    instructions: str
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    model: str
    temperature: float
    top_p: float
    max_output_tokens: int
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    metadata: _containers.ScalarMap[str, str]
    reasoning: ReasoningConfig
    text: TextConfig
    top_logprobs: int
    include: _containers.RepeatedScalarFieldContainer[str]
    max_tool_calls: int
    previous_response_id: str
    store: bool
    stream: bool
    stream_options: StreamOptions
    truncation: str
    service_tier: str
    user: str
    safety_identifier: str
    prompt: Prompt
    prompt_cache_key: str
    prompt_cache_retention: str
    prompt_cache_options: PromptCacheOptions
    background: bool
    background_options: BackgroundOptions
    conversation_id: str
    conversation_object: Conversation
    context_management: _containers.RepeatedCompositeFieldContainer[ContextManagement]
    moderation: ModerationConfig
    image: ImageOptions
    access_programs: AccessPrograms
    json_form: JsonForm
    def __init__(self, input_text: _Optional[str] = ..., input_items: _Optional[_Union[ItemList, _Mapping]] = ..., instructions: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., model: _Optional[str] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., max_output_tokens: _Optional[int] = ..., tool_choice: _Optional[_Union[ToolChoice, _Mapping]] = ..., parallel_tool_calls: bool = ..., metadata: _Optional[_Mapping[str, str]] = ..., reasoning: _Optional[_Union[ReasoningConfig, _Mapping]] = ..., text: _Optional[_Union[TextConfig, _Mapping]] = ..., top_logprobs: _Optional[int] = ..., include: _Optional[_Iterable[str]] = ..., max_tool_calls: _Optional[int] = ..., previous_response_id: _Optional[str] = ..., store: bool = ..., stream: bool = ..., stream_options: _Optional[_Union[StreamOptions, _Mapping]] = ..., truncation: _Optional[str] = ..., service_tier: _Optional[str] = ..., user: _Optional[str] = ..., safety_identifier: _Optional[str] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ..., prompt_cache_key: _Optional[str] = ..., prompt_cache_retention: _Optional[str] = ..., prompt_cache_options: _Optional[_Union[PromptCacheOptions, _Mapping]] = ..., background: bool = ..., background_options: _Optional[_Union[BackgroundOptions, _Mapping]] = ..., conversation_id: _Optional[str] = ..., conversation_object: _Optional[_Union[Conversation, _Mapping]] = ..., context_management: _Optional[_Iterable[_Union[ContextManagement, _Mapping]]] = ..., moderation: _Optional[_Union[ModerationConfig, _Mapping]] = ..., image: _Optional[_Union[ImageOptions, _Mapping]] = ..., access_programs: _Optional[_Union[AccessPrograms, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ReasoningConfig(_message.Message):
    __slots__ = ("effort", "summary", "generate_summary", "context", "mode", "json_form")
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    GENERATE_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    effort: str
    summary: str
    generate_summary: str
    context: str
    mode: str
    json_form: JsonForm
    def __init__(self, effort: _Optional[str] = ..., summary: _Optional[str] = ..., generate_summary: _Optional[str] = ..., context: _Optional[str] = ..., mode: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class TextConfig(_message.Message):
    __slots__ = ("format", "verbosity", "json_form")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    VERBOSITY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    format: TextFormat
    verbosity: str
    json_form: JsonForm
    def __init__(self, format: _Optional[_Union[TextFormat, _Mapping]] = ..., verbosity: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class TextFormat(_message.Message):
    __slots__ = ("text", "json_schema", "json_object", "unknown")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    JSON_OBJECT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    text: PlainTextFormat
    json_schema: JsonSchemaFormat
    json_object: JsonObjectFormat
    unknown: UnknownVariant
    def __init__(self, text: _Optional[_Union[PlainTextFormat, _Mapping]] = ..., json_schema: _Optional[_Union[JsonSchemaFormat, _Mapping]] = ..., json_object: _Optional[_Union[JsonObjectFormat, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class PlainTextFormat(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class JsonSchemaFormat(_message.Message):
    __slots__ = ("name", "schema_json", "description", "strict", "json_form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema_json: str
    description: str
    strict: bool
    json_form: JsonForm
    def __init__(self, name: _Optional[str] = ..., schema_json: _Optional[str] = ..., description: _Optional[str] = ..., strict: bool = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class JsonObjectFormat(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class StreamOptions(_message.Message):
    __slots__ = ("include_obfuscation", "json_form")
    INCLUDE_OBFUSCATION_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    include_obfuscation: bool
    json_form: JsonForm
    def __init__(self, include_obfuscation: bool = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("id", "version", "variables", "json_form")
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: PromptVariable
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[PromptVariable, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: str
    variables: _containers.MessageMap[str, PromptVariable]
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., version: _Optional[str] = ..., variables: _Optional[_Mapping[str, PromptVariable]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class PromptVariable(_message.Message):
    __slots__ = ("text", "input_text", "input_image", "input_file", "unknown")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INPUT_TEXT_FIELD_NUMBER: _ClassVar[int]
    INPUT_IMAGE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FILE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    text: str
    input_text: InputText
    input_image: InputImage
    input_file: InputFile
    unknown: UnknownVariant
    def __init__(self, text: _Optional[str] = ..., input_text: _Optional[_Union[InputText, _Mapping]] = ..., input_image: _Optional[_Union[InputImage, _Mapping]] = ..., input_file: _Optional[_Union[InputFile, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class PromptCacheOptions(_message.Message):
    __slots__ = ("mode", "ttl", "comparison_response_id", "prewarm", "json_form")
    MODE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    PREWARM_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    mode: str
    ttl: str
    comparison_response_id: str
    prewarm: bool
    json_form: JsonForm
    def __init__(self, mode: _Optional[str] = ..., ttl: _Optional[str] = ..., comparison_response_id: _Optional[str] = ..., prewarm: bool = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class BackgroundOptions(_message.Message):
    __slots__ = ("completion_window", "continuation_id", "json_form")
    COMPLETION_WINDOW_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    completion_window: str
    continuation_id: str
    json_form: JsonForm
    def __init__(self, completion_window: _Optional[str] = ..., continuation_id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Conversation(_message.Message):
    __slots__ = ("id", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ContextManagement(_message.Message):
    __slots__ = ("type", "compact_threshold", "json_form")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMPACT_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    type: str
    compact_threshold: int
    json_form: JsonForm
    def __init__(self, type: _Optional[str] = ..., compact_threshold: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ModerationConfig(_message.Message):
    __slots__ = ("model", "policy", "json_form")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    model: str
    policy: ModerationPolicy
    json_form: JsonForm
    def __init__(self, model: _Optional[str] = ..., policy: _Optional[_Union[ModerationPolicy, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ModerationPolicy(_message.Message):
    __slots__ = ("input", "output", "json_form")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    input: ModerationRule
    output: ModerationRule
    json_form: JsonForm
    def __init__(self, input: _Optional[_Union[ModerationRule, _Mapping]] = ..., output: _Optional[_Union[ModerationRule, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ModerationRule(_message.Message):
    __slots__ = ("mode", "json_form")
    MODE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    mode: str
    json_form: JsonForm
    def __init__(self, mode: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageOptions(_message.Message):
    __slots__ = ("context_compression", "json_form")
    CONTEXT_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    context_compression: str
    json_form: JsonForm
    def __init__(self, context_compression: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class AccessPrograms(_message.Message):
    __slots__ = ("cyber", "json_form")
    CYBER_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    cyber: str
    json_form: JsonForm
    def __init__(self, cyber: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("id", "output", "created_at", "status", "model", "usage", "incomplete_details", "error", "parallel_tool_calls", "tool_choice", "tools", "temperature", "top_p", "object", "instructions_text", "instructions_items", "metadata", "max_output_tokens", "reasoning", "text", "completed_at", "max_tool_calls", "top_logprobs", "previous_response_id", "service_tier", "store", "truncation", "user", "safety_identifier", "background", "conversation", "prompt", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "prompt_cache_diagnostics", "tool_usage", "moderation", "input_transformations", "image", "access_programs", "json_form")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_DETAILS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_TEXT_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_ITEMS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_TIER_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SAFETY_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_KEY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_RETENTION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CACHE_DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    TOOL_USAGE_FIELD_NUMBER: _ClassVar[int]
    MODERATION_FIELD_NUMBER: _ClassVar[int]
    INPUT_TRANSFORMATIONS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    ACCESS_PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    output: _containers.RepeatedCompositeFieldContainer[Item]
    created_at: float
    status: str
    model: str
    usage: Usage
    incomplete_details: IncompleteDetails
    error: ResponseError
    parallel_tool_calls: bool
    tool_choice: ToolChoice
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    temperature: float
    top_p: float
    object: str
    instructions_text: str
    instructions_items: ItemList
    metadata: _containers.ScalarMap[str, str]
    max_output_tokens: int
    reasoning: ReasoningConfig
    text: TextConfig
    completed_at: float
    max_tool_calls: int
    top_logprobs: int
    previous_response_id: str
    service_tier: str
    store: bool
    truncation: str
    user: str
    safety_identifier: str
    background: bool
    conversation: Conversation
    prompt: Prompt
    prompt_cache_key: str
    prompt_cache_retention: str
    prompt_cache_options: PromptCacheOptions
    prompt_cache_diagnostics: PromptCacheDiagnostics
    tool_usage: ToolUsage
    moderation: ResponseModeration
    input_transformations: _containers.RepeatedCompositeFieldContainer[InputTransformation]
    image: ImageOptions
    access_programs: AccessPrograms
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., output: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., created_at: _Optional[float] = ..., status: _Optional[str] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., incomplete_details: _Optional[_Union[IncompleteDetails, _Mapping]] = ..., error: _Optional[_Union[ResponseError, _Mapping]] = ..., parallel_tool_calls: bool = ..., tool_choice: _Optional[_Union[ToolChoice, _Mapping]] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., object: _Optional[str] = ..., instructions_text: _Optional[str] = ..., instructions_items: _Optional[_Union[ItemList, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., max_output_tokens: _Optional[int] = ..., reasoning: _Optional[_Union[ReasoningConfig, _Mapping]] = ..., text: _Optional[_Union[TextConfig, _Mapping]] = ..., completed_at: _Optional[float] = ..., max_tool_calls: _Optional[int] = ..., top_logprobs: _Optional[int] = ..., previous_response_id: _Optional[str] = ..., service_tier: _Optional[str] = ..., store: bool = ..., truncation: _Optional[str] = ..., user: _Optional[str] = ..., safety_identifier: _Optional[str] = ..., background: bool = ..., conversation: _Optional[_Union[Conversation, _Mapping]] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ..., prompt_cache_key: _Optional[str] = ..., prompt_cache_retention: _Optional[str] = ..., prompt_cache_options: _Optional[_Union[PromptCacheOptions, _Mapping]] = ..., prompt_cache_diagnostics: _Optional[_Union[PromptCacheDiagnostics, _Mapping]] = ..., tool_usage: _Optional[_Union[ToolUsage, _Mapping]] = ..., moderation: _Optional[_Union[ResponseModeration, _Mapping]] = ..., input_transformations: _Optional[_Iterable[_Union[InputTransformation, _Mapping]]] = ..., image: _Optional[_Union[ImageOptions, _Mapping]] = ..., access_programs: _Optional[_Union[AccessPrograms, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details", "json_form")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOKENS_DETAILS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_DETAILS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens_details: OutputTokensDetails
    json_form: JsonForm
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., total_tokens: _Optional[int] = ..., input_tokens_details: _Optional[_Union[InputTokensDetails, _Mapping]] = ..., output_tokens_details: _Optional[_Union[OutputTokensDetails, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InputTokensDetails(_message.Message):
    __slots__ = ("cached_tokens", "cache_write_tokens", "cache_write_tokens_details", "json_form")
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_TOKENS_DETAILS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    cached_tokens: int
    cache_write_tokens: int
    cache_write_tokens_details: CacheWriteDetails
    json_form: JsonForm
    def __init__(self, cached_tokens: _Optional[int] = ..., cache_write_tokens: _Optional[int] = ..., cache_write_tokens_details: _Optional[_Union[CacheWriteDetails, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CacheWriteDetails(_message.Message):
    __slots__ = ("ttl_30m_tokens", "ttl_12h_tokens", "json_form")
    TTL_30M_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TTL_12H_TOKENS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    ttl_30m_tokens: int
    ttl_12h_tokens: int
    json_form: JsonForm
    def __init__(self, ttl_30m_tokens: _Optional[int] = ..., ttl_12h_tokens: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class OutputTokensDetails(_message.Message):
    __slots__ = ("reasoning_tokens", "json_form")
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    reasoning_tokens: int
    json_form: JsonForm
    def __init__(self, reasoning_tokens: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class IncompleteDetails(_message.Message):
    __slots__ = ("reason", "json_form")
    REASON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    reason: str
    json_form: JsonForm
    def __init__(self, reason: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ResponseError(_message.Message):
    __slots__ = ("code", "message", "param", "type", "misalignment", "json_form")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MISALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    param: str
    type: str
    misalignment: Misalignment
    json_form: JsonForm
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., param: _Optional[str] = ..., type: _Optional[str] = ..., misalignment: _Optional[_Union[Misalignment, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class Misalignment(_message.Message):
    __slots__ = ("error_type", "detailed_explanation", "review_target", "steer", "json_form")
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    DETAILED_EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    REVIEW_TARGET_FIELD_NUMBER: _ClassVar[int]
    STEER_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    error_type: str
    detailed_explanation: str
    review_target: str
    steer: MisalignmentSteer
    json_form: JsonForm
    def __init__(self, error_type: _Optional[str] = ..., detailed_explanation: _Optional[str] = ..., review_target: _Optional[str] = ..., steer: _Optional[_Union[MisalignmentSteer, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class MisalignmentSteer(_message.Message):
    __slots__ = ("message", "json_form")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    message: str
    json_form: JsonForm
    def __init__(self, message: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class PromptCacheDiagnostics(_message.Message):
    __slots__ = ("cache_miss", "cache_hit", "comparison_response_not_found", "unavailable", "unknown")
    CACHE_MISS_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_RESPONSE_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    cache_miss: CacheMiss
    cache_hit: CacheHit
    comparison_response_not_found: CacheComparisonNotFound
    unavailable: CacheDiagnosticsUnavailable
    unknown: UnknownVariant
    def __init__(self, cache_miss: _Optional[_Union[CacheMiss, _Mapping]] = ..., cache_hit: _Optional[_Union[CacheHit, _Mapping]] = ..., comparison_response_not_found: _Optional[_Union[CacheComparisonNotFound, _Mapping]] = ..., unavailable: _Optional[_Union[CacheDiagnosticsUnavailable, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class CacheMiss(_message.Message):
    __slots__ = ("reason", "cache_missed_tokens", "comparison_reusable_tokens", "json_form")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISSED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_REUSABLE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    reason: str
    cache_missed_tokens: int
    comparison_reusable_tokens: int
    json_form: JsonForm
    def __init__(self, reason: _Optional[str] = ..., cache_missed_tokens: _Optional[int] = ..., comparison_reusable_tokens: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CacheHit(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CacheComparisonNotFound(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class CacheDiagnosticsUnavailable(_message.Message):
    __slots__ = ("json_form",)
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    json_form: JsonForm
    def __init__(self, json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ToolUsage(_message.Message):
    __slots__ = ("image_gen", "web_search", "json_form")
    IMAGE_GEN_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    image_gen: ImageToolUsage
    web_search: WebSearchToolUsage
    json_form: JsonForm
    def __init__(self, image_gen: _Optional[_Union[ImageToolUsage, _Mapping]] = ..., web_search: _Optional[_Union[WebSearchToolUsage, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageToolUsage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details", "cached_tokens", "cached_tokens_details", "json_form")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOKENS_DETAILS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_DETAILS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_DETAILS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: ImageTokensDetails
    output_tokens_details: ImageTokensDetails
    cached_tokens: int
    cached_tokens_details: ImageCachedTokensDetails
    json_form: JsonForm
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., total_tokens: _Optional[int] = ..., input_tokens_details: _Optional[_Union[ImageTokensDetails, _Mapping]] = ..., output_tokens_details: _Optional[_Union[ImageTokensDetails, _Mapping]] = ..., cached_tokens: _Optional[int] = ..., cached_tokens_details: _Optional[_Union[ImageCachedTokensDetails, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageTokensDetails(_message.Message):
    __slots__ = ("image_tokens", "text_tokens", "json_form")
    IMAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    image_tokens: int
    text_tokens: int
    json_form: JsonForm
    def __init__(self, image_tokens: _Optional[int] = ..., text_tokens: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ImageCachedTokensDetails(_message.Message):
    __slots__ = ("cached_image_tokens", "cached_text_tokens", "json_form")
    CACHED_IMAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    cached_image_tokens: int
    cached_text_tokens: int
    json_form: JsonForm
    def __init__(self, cached_image_tokens: _Optional[int] = ..., cached_text_tokens: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class WebSearchToolUsage(_message.Message):
    __slots__ = ("num_requests", "json_form")
    NUM_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    num_requests: int
    json_form: JsonForm
    def __init__(self, num_requests: _Optional[int] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ResponseModeration(_message.Message):
    __slots__ = ("input", "output", "json_form")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    input: ModerationOutcome
    output: ModerationOutcome
    json_form: JsonForm
    def __init__(self, input: _Optional[_Union[ModerationOutcome, _Mapping]] = ..., output: _Optional[_Union[ModerationOutcome, _Mapping]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ModerationOutcome(_message.Message):
    __slots__ = ("moderation_result", "error", "unknown")
    MODERATION_RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    moderation_result: ModerationResult
    error: ModerationError
    unknown: UnknownVariant
    def __init__(self, moderation_result: _Optional[_Union[ModerationResult, _Mapping]] = ..., error: _Optional[_Union[ModerationError, _Mapping]] = ..., unknown: _Optional[_Union[UnknownVariant, _Mapping]] = ...) -> None: ...

class ModerationResult(_message.Message):
    __slots__ = ("model", "flagged", "categories", "category_scores", "category_applied_input_types", "json_form")
    class CategoriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bool
        def __init__(self, key: _Optional[str] = ..., value: bool = ...) -> None: ...
    class CategoryScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class CategoryAppliedInputTypesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: StringList
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[StringList, _Mapping]] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FLAGGED_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_SCORES_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_APPLIED_INPUT_TYPES_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    model: str
    flagged: bool
    categories: _containers.ScalarMap[str, bool]
    category_scores: _containers.ScalarMap[str, float]
    category_applied_input_types: _containers.MessageMap[str, StringList]
    json_form: JsonForm
    def __init__(self, model: _Optional[str] = ..., flagged: bool = ..., categories: _Optional[_Mapping[str, bool]] = ..., category_scores: _Optional[_Mapping[str, float]] = ..., category_applied_input_types: _Optional[_Mapping[str, StringList]] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class ModerationError(_message.Message):
    __slots__ = ("code", "message", "json_form")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    json_form: JsonForm
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...

class InputTransformation(_message.Message):
    __slots__ = ("id", "type", "action", "reason", "json_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    JSON_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: str
    action: str
    reason: str
    json_form: JsonForm
    def __init__(self, id: _Optional[str] = ..., type: _Optional[str] = ..., action: _Optional[str] = ..., reason: _Optional[str] = ..., json_form: _Optional[_Union[JsonForm, _Mapping]] = ...) -> None: ...
