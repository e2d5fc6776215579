// A dataset row (one JSON object a line) -> a Task.

import { create } from "@bufbuild/protobuf";
import { parse, stringify } from "lossless-json";

import { isObject, Misfit, readMessage } from "./convert.js";
import { ResponseCreateParamsSchema } from "./gen/gymapi/v1/responses_pb.js";
import { TaskSchema, type Task } from "./gen/gymapi/v1/rollout_pb.js";

/**
 * Reads the rows of a file, empty lines left out.
 * @throws Misfit with the number of the line.
 */
export function readRows(text: string): Task[] {
  const tasks: Task[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    try {
      tasks.push(readRow(line));
    } catch (problem) {
      throw new Misfit(`line ${index + 1}: ${(problem as Error).message}`);
    }
  }
  return tasks;
}

/** Reads one row. Every key that is neither the question nor the agent goes to the verifier, numbers digit by digit. */
export function readRow(line: string): Task {
  const row = parse(line);
  if (!isObject(row)) throw new Misfit("the row is no JSON object");
  const { responses_create_params: params, agent_ref: agent, ...fields } = row;
  if (params === undefined) throw new Misfit("responses_create_params is missing");
  if (agent !== undefined && !(isObject(agent) && typeof agent.name === "string")) {
    throw new Misfit('agent_ref: expected {"type": "responses_api_agents", "name": ...}');
  }
  return create(TaskSchema, {
    agent: agent === undefined ? "" : (agent.name as string),
    createParams: readMessage(ResponseCreateParamsSchema, params, "responses_create_params"),
    fieldsJson: Object.keys(fields).length === 0 ? "" : (stringify(fields) as string),
  });
}
