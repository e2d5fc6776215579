// A resources server for gymd in JavaScript, written from the protos alone: a counter with two tools.
//
//     node server.js --protos ../../../protos --daemon 127.0.0.1:50161 [--name node_counter] [--lease-seconds 15]
//
// It listens on a free port, registers itself with the daemon and renews its lease; agents then call it by
// plain gRPC. SIGTERM or SIGINT: it takes no new sessions, leaves the registry and ends. One line of JSON on
// stdout says each change of state: registered, lease_lost, stopped.

import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import protobuf from "protobufjs";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    protos: { type: "string" },
    daemon: { type: "string" },
    name: { type: "string", default: "node_counter" },
    "lease-seconds": { type: "string", default: "15" },
  },
});
if (!options.protos || !options.daemon) {
  process.stderr.write("node server.js --protos FOLDER --daemon HOST:PORT [--name NAME] [--lease-seconds N]\n");
  process.exit(2);
}

const DEADLINE_MS = 5_000; // of every call to the daemon
const RETRY_MS = 500; // after a renewal that failed
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024; // of gRPC's own default; announced below
const MAX_SESSIONS = 10_000;
const IDLE_MS = 3_600_000; // sessions nobody used for so long are forgotten
const MAX_INT = 2 ** 53 - 1;

const definition = loader.loadSync(
  ["gymapi/v1/resources_service.proto", "gymapi/v1/registry_service.proto"],
  { includeDirs: [options.protos], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true },
);
const { gymapi } = grpc.loadPackageDefinition(definition);

const say = (event, facts = {}) => process.stdout.write(JSON.stringify({ event, ...facts }) + "\n");

// ---- errors: a status code, a text, and one google.rpc.ErrorInfo with a reason of errors.proto

const rpc = protobuf.parse(`
  syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
`, { keepCase: true }).root;
const Status = rpc.lookupType("Status");
const ErrorInfo = rpc.lookupType("ErrorInfo");

function failure(code, reason, message, facts = {}) {
  const info = ErrorInfo.encode({ reason, domain: "gymd", metadata: facts }).finish();
  const details = [{ type_url: "type.googleapis.com/google.rpc.ErrorInfo", value: info }];
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(Status.encode({ code, message, details }).finish()));
  return Object.assign(new Error(message), { code, details: message, metadata });
}

const invalid = (field, message) => failure(grpc.status.INVALID_ARGUMENT, "INVALID_REQUEST", message, { field });

// ---- the environment

const sessions = new Map(); // session id -> { count, expected, requestId, answers, lastUsed }
let draining = false;

const tools = {
  increment_counter: {
    description: "Add a number to the counter.",
    parameters: {
      type: "object",
      properties: { count: { type: "integer" } },
      required: ["count"],
      additionalProperties: false,
    },
    call(session, { count }) {
      if (!Number.isSafeInteger(count)) throw new Error("count must be an integer");
      session.count += count;
      return { success: true };
    },
  },
  get_counter_value: {
    description: "Read the counter.",
    parameters: { type: "object", properties: {}, required: [], additionalProperties: false },
    call: (session) => ({ count: session.count }),
  },
};

function sessionOf(id) {
  const session = sessions.get(id);
  if (!session) {
    const text = `no session '${id}': it was never seeded, was closed, or expired`;
    throw failure(grpc.status.NOT_FOUND, "SESSION_NOT_FOUND", text, { session_id: id });
  }
  session.lastUsed = Date.now();
  return session;
}

function countOf(fields, key) {
  const value = fields[key] ?? 0;
  if (!Number.isSafeInteger(value) || Math.abs(value) > MAX_INT) {
    throw invalid(`task.fields_json.${key}`, `${key} must be an integer`);
  }
  return value;
}

const service = {
  ListTools() {
    return {
      tools: Object.entries(tools).map(([name, tool]) => ({
        name,
        description: tool.description,
        parameters_json: JSON.stringify(tool.parameters),
        strict: true,
      })),
    };
  },

  SeedSession({ session_id: id, task, request_id: requestId }) {
    if (!id) throw invalid("session_id", "session_id is missing");
    const known = sessions.get(id);
    if (known && known.requestId === requestId) return {}; // a repeat: the first answer was lost
    if (known) {
      throw failure(grpc.status.ALREADY_EXISTS, "NAME_TAKEN", `a session '${id}' is open already`, { session_id: id });
    }
    if (draining) throw failure(grpc.status.UNAVAILABLE, "DRAINING", "this server is shutting down");
    if (sessions.size >= MAX_SESSIONS) {
      const text = `${MAX_SESSIONS} sessions are open`;
      throw failure(grpc.status.RESOURCE_EXHAUSTED, "LIMIT_REACHED", text, { limit: String(MAX_SESSIONS) });
    }
    let fields;
    try {
      fields = JSON.parse(task?.fields_json || "{}");
    } catch {
      throw invalid("task.fields_json", "fields_json is no JSON");
    }
    const count = countOf(fields, "initial_count");
    const expected = countOf(fields, "expected_count");
    sessions.set(id, { count, expected, requestId, answers: new Map(), lastUsed: Date.now() });
    return {};
  },

  CallTool({ session_id: id, call_id: callId, name, arguments_json: text }) {
    const session = sessionOf(id);
    if (!Object.hasOwn(tools, name)) {
      throw failure(grpc.status.NOT_FOUND, "TOOL_NOT_FOUND", `there is no tool '${name}'`, { tool: name });
    }
    if (!callId) throw invalid("call_id", "call_id is missing");
    const answered = session.answers.get(callId);
    if (answered) return answered; // a repeat must not count twice
    let answer;
    try {
      answer = { output: JSON.stringify(tools[name].call(session, JSON.parse(text || "{}"))) };
    } catch (problem) {
      // What the model can correct is an answer to the model, not a failed call.
      answer = { output: JSON.stringify({ error: problem.message }), is_error: true };
    }
    session.answers.set(callId, answer);
    return answer;
  },

  Verify({ session_id: id }) {
    if (!id) throw invalid("session_id", "the counter is verified inside a session only");
    const { count, expected } = sessionOf(id);
    const extras = { count, expected_count: expected };
    return { reward: { value: count === expected ? 1 : 0, extras_json: JSON.stringify(extras) } };
  },

  CloseSession({ session_id: id }) {
    sessions.delete(id); // closing what is gone succeeds
    return {};
  },

  AggregateMetrics({ rollouts }) {
    const values = rollouts.filter(({ reward }) => reward?._value).map(({ reward }) => reward.value);
    const metrics = { count: values.length };
    if (values.length) metrics.mean_reward = values.reduce((sum, value) => sum + value, 0) / values.length;
    return { metrics_json: JSON.stringify(metrics), key_metrics: ["mean_reward"] };
  },
};

// A throw becomes a status; anything else than our own errors is a bug of this server.
const handler = (method) => (call, callback) => {
  try {
    callback(null, method(call.request));
  } catch (problem) {
    if (problem.code !== undefined) return callback(problem);
    const facts = { exception: problem.name };
    callback(failure(grpc.status.INTERNAL, "SERVER_CODE_FAILED", `${problem.name}: ${problem.message}`, facts));
  }
};

const server = new grpc.Server({ "grpc.max_receive_message_length": MAX_MESSAGE_BYTES });
server.addService(
  gymapi.v1.ResourcesService.service,
  Object.fromEntries(Object.entries(service).map(([name, method]) => [name, handler(method)])),
);

// ---- the lease

const registry = new gymapi.v1.RegistryService(options.daemon, grpc.credentials.createInsecure());
let serverId = "";
let renewal;

function call(method, request) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + DEADLINE_MS;
    registry[method](request, { deadline }, (problem, answer) => (problem ? reject(problem) : resolve(answer)));
  });
}

async function register(address) {
  const first = serverId === "";
  let wait = RETRY_MS;
  try {
    const answer = await call("RegisterServer", {
      server_id: serverId,
      name: options.name,
      kind: "SERVER_KIND_RESOURCES",
      address,
      capabilities: {
        api_version: "v1",
        link: false,
        max_message_bytes: MAX_MESSAGE_BYTES,
        implementation: "node_counter 1.0.0",
      },
      lease_ttl: { seconds: Number(options["lease-seconds"]) },
      ready: !draining,
      pid: process.pid,
    });
    serverId = answer.server_id;
    const { seconds, nanos } = answer.lease_ttl;
    wait = (Number(seconds) * 1000 + nanos / 1e6) / 3;
    if (first) say("registered", { address, server_id: serverId });
    if (answer.draining && !draining) return stop();
  } catch (problem) {
    process.stderr.write(`lease not renewed: ${problem.message}\n`);
    if (problem.code === grpc.status.NOT_FOUND) {
      serverId = ""; // the lease ran out: register anew
      say("lease_lost");
    }
  }
  if (!draining) renewal = setTimeout(() => register(address), wait);
}

async function stop() {
  if (draining) return;
  draining = true;
  clearTimeout(renewal);
  clearInterval(sweep);
  try {
    if (serverId) await call("DeregisterServer", { server_id: serverId });
  } catch (problem) {
    process.stderr.write(`not deregistered, the lease will run out: ${problem.message}\n`);
  }
  registry.close();
  const force = setTimeout(() => server.forceShutdown(), DEADLINE_MS);
  server.tryShutdown(() => {
    clearTimeout(force);
    say("stopped", { open_sessions: sessions.size });
  });
}

const sweep = setInterval(() => {
  for (const [id, session] of sessions) {
    if (Date.now() - session.lastUsed > IDLE_MS) sessions.delete(id);
  }
}, 30_000);

process.on("SIGTERM", stop);
process.on("SIGINT", stop);

server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (problem, port) => {
  if (problem) throw problem;
  register(`127.0.0.1:${port}`);
});
