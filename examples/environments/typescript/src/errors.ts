// Failed calls: a canonical code, a text, and one google.rpc.ErrorInfo with a reason of errors.proto.

import { Code, ConnectError } from "@connectrpc/connect";

import { ErrorInfoSchema } from "./gen/error_info_pb.js";

type Facts = Record<string, string>;

export function failure(code: Code, reason: string, text: string, metadata: Facts = {}): ConnectError {
  return new ConnectError(text, code, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: "gymd", metadata } },
  ]);
}

export function invalid(field: string, text: string): ConnectError {
  return failure(Code.InvalidArgument, "INVALID_REQUEST", text, { field });
}
