// Serves the warehouse to the agents of a running daemon. One line of JSON on stdout says each change of state:
// registered, lease_lost, stopped.

import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";

import { ResourcesService } from "./gen/gymapi/v1/resources_service_pb.js";
import { Lease } from "./lease.js";
import { bugsAsFailures, resourcesService, Sessions } from "./service.js";

const USAGE = `npm start -- --daemon HOST:PORT [options]
  --name NAME            under which agents call it [warehouse]
  --host HOST            address to listen on; the daemon's hosts must reach it [127.0.0.1]
  --port PORT            [any free one]
  --lease-seconds N      the registry forgets a server that is silent for so long [15]
  --grace-seconds N      how long open sessions may go on at shutdown [10]`;

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024; // a task or a trajectory; announced to the daemon
const SWEEP_MS = 30_000;
const POLL_MS = 50;

function main(): void {
  const options = readOptions();
  const sessions = new Sessions();
  const connections = new Set<ServerHttp2Session>();
  const server = createServer(
    connectNodeAdapter({
      routes: (router) => router.service(ResourcesService, resourcesService(sessions)),
      connect: false,
      grpcWeb: false,
      readMaxBytes: MAX_MESSAGE_BYTES,
      interceptors: [bugsAsFailures],
    }),
  );
  server.on("session", (connection) => {
    connections.add(connection);
    connection.once("close", () => connections.delete(connection));
  });
  const sweep = setInterval(() => sessions.expire(), SWEEP_MS);

  server.once("error", (problem) => {
    process.stderr.write(`cannot listen on ${options.host}:${options.port}: ${problem.message}\n`);
    process.exit(2);
  });
  server.listen(options.port, options.host, () => {
    const address = `${options.host}:${(server.address() as AddressInfo).port}`;
    const lease = new Lease(
      options.daemon,
      { name: options.name, address, leaseMs: options.leaseS * 1000, maxMessageBytes: MAX_MESSAGE_BYTES },
      {
        registered: (serverId) => say("registered", { address, server_id: serverId }),
        lost: () => say("lease_lost"),
        drained: () => void stop(),
      },
    );

    /** No new sessions; those that are open may end; then good-bye. */
    const stop = async () => {
      if (sessions.draining) return;
      sessions.draining = true;
      await lease.pause();
      const deadline = Date.now() + options.graceS * 1000;
      while (sessions.size > 0 && Date.now() < deadline)
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      await lease.leave();
      clearInterval(sweep);
      for (const connection of connections) connection.close(); // after the calls that are under way
      server.close(() => say("stopped", { open_sessions: sessions.size }));
    };
    process.on("SIGTERM", stop).on("SIGINT", stop);
    void lease.keep();
  });
}

function readOptions() {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      daemon: text,
      name: { ...text, default: "warehouse" },
      host: { ...text, default: "127.0.0.1" },
      port: { ...text, default: "0" },
      "lease-seconds": { ...text, default: "15" },
      "grace-seconds": { ...text, default: "10" },
    },
  });
  if (values.daemon === undefined) throw new Error(USAGE);
  return {
    daemon: values.daemon,
    name: values.name!,
    host: values.host!,
    port: count("port", values.port!, 65_535),
    leaseS: count("lease-seconds", values["lease-seconds"]!, 300),
    graceS: count("grace-seconds", values["grace-seconds"]!, 3_600),
  };
}

function count(name: string, text: string, most: number): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > most)
    throw new Error(`--${name} must be a whole number from 0 to ${most}, not '${text}'`);
  return Number(text);
}

function say(event: string, facts: object = {}): void {
  process.stdout.write(JSON.stringify({ event, ...facts }) + "\n");
}

try {
  main();
} catch (problem) {
  process.stderr.write(`${(problem as Error).message}\n`);
  process.exitCode = 2;
}
