// ResourcesService: sessions around the warehouse (docs/protocol.md, "A resources server").

import { Code, ConnectError, type Interceptor, type ServiceImpl } from "@connectrpc/connect";
import { durationMs } from "@bufbuild/protobuf/wkt";

import { failure, invalid } from "./errors.js";
import type {
  CallToolRequest,
  ResourcesService,
  SeedSessionRequest,
} from "./gen/gymapi/v1/resources_service_pb.js";
import { callTool, score, TaskError, ToolError, tools, Warehouse } from "./warehouse.js";

const MAX_SESSIONS = 10_000;
const MAX_CALLS = 1_000; // in a session: their answers are kept
const IDLE_MS = 3_600_000;

interface Answer {
  output: string;
  isError: boolean;
}

interface Session {
  warehouse: Warehouse;
  requestId: string;
  answers: Map<string, Answer>; // by call_id: a repeat is answered, not applied
  idleMs: number;
  lastUsed: number;
}

/** The open sessions and what is asked of them. */
export class Sessions {
  /** Set before the shutdown: no new sessions, those that are open go on. */
  draining = false;
  readonly #open = new Map<string, Session>();

  get size(): number {
    return this.#open.size;
  }

  seed({ sessionId, task, requestId, idleTimeout }: SeedSessionRequest): void {
    if (!sessionId) throw invalid("session_id", "session_id is missing");
    const known = this.#open.get(sessionId);
    if (known?.requestId === requestId) return; // a repeat: the first answer was lost
    if (known !== undefined) {
      const text = `session '${sessionId}' is open already; choose another id`;
      throw failure(Code.AlreadyExists, "NAME_TAKEN", text, { session_id: sessionId });
    }
    if (this.draining) throw failure(Code.Unavailable, "DRAINING", "this server is shutting down");
    if (this.#open.size >= MAX_SESSIONS) {
      const text = `${MAX_SESSIONS} sessions are open; close some or start a replica`;
      throw failure(Code.ResourceExhausted, "LIMIT_REACHED", text, { limit: String(MAX_SESSIONS) });
    }
    const warehouse = warehouseOf(task?.fieldsJson ?? "");
    const idleMs = idleTimeout === undefined ? IDLE_MS : durationMs(idleTimeout);
    this.#open.set(sessionId, { warehouse, requestId, answers: new Map(), idleMs, lastUsed: Date.now() });
  }

  get(sessionId: string): Session {
    const session = this.#open.get(sessionId);
    if (session === undefined) {
      const text = `no session '${sessionId}': it was never seeded, was closed, or expired`;
      throw failure(Code.NotFound, "SESSION_NOT_FOUND", text, { session_id: sessionId });
    }
    session.lastUsed = Date.now();
    return session;
  }

  call({ sessionId, callId, name, argumentsJson }: CallToolRequest): Answer {
    const session = this.get(sessionId);
    const tool = tools.get(name);
    if (tool === undefined) {
      throw failure(Code.NotFound, "TOOL_NOT_FOUND", `there is no tool '${name}'`, { tool: name });
    }
    if (!callId) throw invalid("call_id", "call_id is missing");
    const answered = session.answers.get(callId);
    if (answered !== undefined) return answered;
    if (session.answers.size >= MAX_CALLS) return refusal(`no more than ${MAX_CALLS} calls are allowed`);
    const answer = answerOf(() => callTool(tool, session.warehouse, argumentsJson));
    session.answers.set(callId, answer);
    return answer;
  }

  close(sessionId: string): void {
    this.#open.delete(sessionId); // closing what is gone succeeds
  }

  /** Forgets sessions whose caller died. */
  expire(): void {
    for (const [sessionId, { idleMs, lastUsed }] of this.#open) {
      if (Date.now() - lastUsed > idleMs) this.#open.delete(sessionId);
    }
  }
}

function warehouseOf(fieldsJson: string): Warehouse {
  try {
    return new Warehouse(fieldsJson);
  } catch (problem) {
    if (problem instanceof TaskError) throw invalid(problem.field, problem.message);
    throw problem;
  }
}

/** What the model can correct is an answer to the model; everything else is a failure of this server. */
function answerOf(run: () => string): Answer {
  try {
    return { output: run(), isError: false };
  } catch (problem) {
    if (!(problem instanceof ToolError)) throw problem;
    return refusal(problem.message);
  }
}

function refusal(why: string): Answer {
  return { output: JSON.stringify({ error: why }), isError: true };
}

/** The service as the router wants it. */
export function resourcesService(sessions: Sessions): ServiceImpl<typeof ResourcesService> {
  return {
    listTools: () => ({
      tools: [...tools].map(([name, { description, parameters }]) => ({
        name,
        description,
        parametersJson: JSON.stringify(parameters),
        strict: true,
      })),
    }),
    seedSession(request) {
      sessions.seed(request);
      return {};
    },
    callTool: (request) => sessions.call(request),
    verify({ sessionId }) {
      if (!sessionId) throw invalid("session_id", "the records live in a session: verify needs its id");
      const { value, rightRecords, wrong } = score(sessions.get(sessionId).warehouse);
      return {
        reward: { value, components: { right_records: rightRecords }, extrasJson: JSON.stringify({ wrong }) },
      };
    },
    closeSession({ sessionId }) {
      sessions.close(sessionId);
      return {};
    },
    aggregateMetrics({ rollouts }) {
      // A rollout without a reward counts in no mean.
      const shares = rollouts.flatMap(({ reward }) => reward?.components["right_records"] ?? []);
      const metrics: Record<string, number> = { count: shares.length };
      if (shares.length > 0)
        metrics["mean_right_records"] = shares.reduce((sum, share) => sum + share) / shares.length;
      return { metricsJson: JSON.stringify(metrics), keyMetrics: ["mean_right_records"] };
    },
  };
}

/** Whatever else is thrown is a bug of this server, and says so. */
export const bugsAsFailures: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (problem) {
    if (problem instanceof ConnectError) throw problem;
    const { name, message } = problem as Error;
    process.stderr.write(`${(problem as Error).stack}\n`);
    throw failure(Code.Internal, "SERVER_CODE_FAILED", `${name}: ${message}`, { exception: name });
  }
};
