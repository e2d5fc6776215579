// The server's place in the registry: a lease that is kept alive (docs/protocol.md, "A server: the registry").

import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Client } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { RegistryService, ServerKind } from "./gen/gymapi/v1/registry_service_pb.js";

const DEADLINE_MS = 5_000; // of every call to the daemon
const RETRY_MS = 500; // after a renewal that failed

export interface Announcement {
  name: string;
  /** "host:port" where this server listens. */
  address: string;
  leaseMs: number;
  maxMessageBytes: number;
}

/** Registers a server, renews its lease, and takes it out again. */
export class Lease {
  readonly #connection: Http2SessionManager;
  readonly #registry: Client<typeof RegistryService>;
  #serverId = "";
  #ready = true;
  #left = false;
  #timer: NodeJS.Timeout | undefined;
  #call: Promise<void> = Promise.resolve(); // one at a time: two first calls would be two replicas

  constructor(
    daemon: string,
    readonly announcement: Announcement,
    readonly on: { registered(serverId: string): void; lost(): void; drained(): void },
  ) {
    const baseUrl = `http://${daemon}`;
    this.#connection = new Http2SessionManager(baseUrl);
    const transport = createGrpcTransport({
      baseUrl,
      sessionManager: this.#connection,
      defaultTimeoutMs: DEADLINE_MS,
    });
    this.#registry = createClient(RegistryService, transport);
  }

  /** Registers, and renews from then on. */
  keep(): Promise<void> {
    return (this.#call = this.#call.then(() => this.#renew()));
  }

  /** Stays in the registry and asks for no more work. */
  async pause(): Promise<void> {
    this.#ready = false;
    await this.keep();
  }

  /** Leaves the registry; without an answer of the daemon the lease runs out by itself. */
  async leave(): Promise<void> {
    this.#left = true;
    await this.#call;
    clearTimeout(this.#timer);
    try {
      if (this.#serverId) await this.#registry.deregisterServer({ serverId: this.#serverId });
    } catch (problem) {
      process.stderr.write(
        `not deregistered, the lease will run out: ${ConnectError.from(problem).message}\n`,
      );
    }
    this.#connection.abort();
  }

  /** Registers or renews, and comes back in time for the next. Never throws: a daemon that is away comes back. */
  async #renew(): Promise<void> {
    clearTimeout(this.#timer);
    let wait = RETRY_MS;
    try {
      wait = (await this.#register()) / 3;
    } catch (problem) {
      const failure = ConnectError.from(problem);
      process.stderr.write(`lease not renewed: ${failure.message}\n`);
      if (failure.code === Code.NotFound) {
        this.#serverId = ""; // it ran out: register anew
        this.on.lost();
      }
    }
    if (!this.#left) this.#timer = setTimeout(() => this.keep(), wait);
  }

  /** Returns the lease that the daemon granted, in milliseconds. */
  async #register(): Promise<number> {
    const { name, address, leaseMs, maxMessageBytes } = this.announcement;
    const answer = await this.#registry.registerServer({
      serverId: this.#serverId,
      name,
      kind: ServerKind.RESOURCES,
      address,
      capabilities: {
        apiVersion: "v1",
        link: false,
        maxMessageBytes: BigInt(maxMessageBytes),
        implementation: "gymd-warehouse-typescript 1.0.0",
      },
      leaseTtl: durationFromMs(leaseMs),
      ready: this.#ready,
      condition: this.#ready ? "" : "shutting down",
      pid: BigInt(process.pid),
    });
    if (this.#serverId === "") {
      this.#serverId = answer.serverId;
      this.on.registered(answer.serverId);
    }
    if (answer.draining) this.on.drained();
    return durationMs(answer.leaseTtl!);
  }
}
