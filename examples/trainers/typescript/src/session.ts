// One session of RolloutService.StreamRollouts: credits, acks, and resuming (docs/protocol.md, "A trainer" and
// "Broken streams, crashed trainers").

import { toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Client } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { ErrorInfoSchema } from "./gen/error_info_pb.js";
import { ErrorReason, type ErrorStatus } from "./gen/gymapi/v1/errors_pb.js";
import {
  RolloutService,
  StreamRolloutsRequestSchema,
  TaskSubmissionSchema,
  type RolloutResult,
  type SessionOpened,
  type SessionSummary,
  type TaskAdmission,
  type TaskSubmission,
} from "./gen/gymapi/v1/rollout_service_pb.js";
import { Outbox } from "./outbox.js";

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
const SILENT_INTERVALS = 3; // a stream without even a progress frame for so long is broken
const OPEN_MS = 30_000; // until `opened`
const FIRST_PAUSE_MS = 50; // before the connection is tried again; doubles up to the last
const LAST_PAUSE_MS = 2_000;

// Reasons after which the session may still be there; a status without a reason comes from the transport.
const PASSING = ["", "PEER_UNREACHABLE", "DRAINING"];

type Request = MessageInitShape<typeof StreamRolloutsRequestSchema>;

export interface SessionOptions {
  /** "host:port" of the daemon. */
  address: string;
  clientName: string;
  /** Most rollouts that are under way or waiting here; at least the largest rolloutCount. */
  credits: number;
  /** How long the session outlives a broken stream. */
  resumeWindowMs: number;
  /** A session that an earlier process began, and the number of the last result that it stored. */
  resume?: { sessionId: string; lastSequence: number } | undefined;
  /** The session has begun, or goes on. Nothing is handed in yet: store its id now, to be able to resume it. */
  onOpened(sessionId: string): void;
  /** A task was refused; it costs nothing and the others go on. */
  onRejected(taskId: string, why: ErrorStatus): void;
  /** News about the connection, for people. */
  onNote(text: string): void;
}

/** Hands in tasks as credits allow and yields every result exactly once, across broken streams too. */
export class RolloutSession {
  /** Set when the session has ended in order. */
  summary: SessionSummary | undefined;
  reconnects = 0;

  readonly #options: SessionOptions;
  readonly #connection: Http2SessionManager;
  readonly #client: Client<typeof RolloutService>;
  #outbox = new Outbox<Request>();

  // The session as the daemon described it last.
  #sessionId: string; // "": not begun
  #windowMs: number; // how long it waits for us
  #intervalMs = 0; // longest silence on a stream
  #maxTaskBytes = 0;
  #accepted = new Set<string>(); // tasks that it held when the session was resumed

  #tasks: Iterator<TaskSubmission> = [][Symbol.iterator]();
  #next: TaskSubmission | undefined;
  #unanswered = new Map<string, TaskSubmission>(); // handed in, admission not seen
  #used: number; // rollouts of tasks that are accepted or unanswered
  #stored: number; // number of the last result that the caller has stored
  #lastNews = 0; // when the daemon was last heard of
  #pauseMs = FIRST_PAUSE_MS;
  #draining = false;
  #givenUp = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#sessionId = options.resume?.sessionId ?? "";
    this.#windowMs = options.resume === undefined ? 0 : options.resumeWindowMs;
    this.#stored = this.#used = options.resume?.lastSequence ?? 0;
    const baseUrl = `http://${options.address}`;
    this.#connection = new Http2SessionManager(baseUrl);
    const transport = createGrpcTransport({
      baseUrl,
      readMaxBytes: MAX_MESSAGE_BYTES,
      sessionManager: this.#connection,
    });
    this.#client = createClient(RolloutService, transport);
  }

  /**
   * Runs tasks and yields their results in order of their numbers. Asking for the next ones says that the last
   * ones are stored: only then are they acknowledged and their credits used again.
   * @param tasks when a session is resumed: without those whose results are all stored.
   * @throws ConnectError when the session is lost, or the daemon did not come back within the resume window.
   */
  async *run(tasks: Iterable<TaskSubmission>): AsyncGenerator<RolloutResult[]> {
    this.#tasks = tasks[Symbol.iterator]();
    this.#pull();
    this.#lastNews = Date.now();
    for (;;) {
      try {
        yield* this.#stream();
        return;
      } catch (failure) {
        if (!(failure instanceof ConnectError)) throw failure; // not the connection's
        if (this.#isOver(failure)) return;
        const away = Date.now() - this.#lastNews + this.#pauseMs;
        if (!PASSING.includes(reasonOf(failure)) || away > this.#windowMs) throw failure;
        this.#options.onNote(`stream broken (${failure.message}); trying again in ${this.#pauseMs} ms`);
      }
      // Spread out, so that the trainers of a daemon that comes back do not all arrive at once.
      await new Promise((resolve) => setTimeout(resolve, this.#pauseMs * (0.5 + Math.random() / 2)));
      this.#pauseMs = Math.min(2 * this.#pauseMs, LAST_PAUSE_MS);
    }
  }

  /** Gives the session up with everything under way; `run` ends. */
  giveUp(): void {
    this.#givenUp = true;
    this.#send({ case: "end", value: {} });
    this.#outbox.close();
  }

  /** Drops the connection. */
  close(): void {
    this.#connection.abort();
  }

  /** Whether a stream that failed has nothing left to say. */
  #isOver(failure: ConnectError): boolean {
    if (this.#givenUp) return true;
    // The summary got lost with the stream: the daemon forgets a session whose results are all acknowledged.
    return this.#isDone() && reasonOf(failure) === "SESSION_NOT_FOUND";
  }

  /** Whether every task was answered and every result of the accepted ones is stored. */
  #isDone(): boolean {
    const handedIn = this.#next === undefined && this.#unanswered.size === 0;
    return this.#sessionId !== "" && handedIn && this.#used === this.#stored;
  }

  /** One stream, from `open` to the summary. */
  async *#stream(): AsyncGenerator<RolloutResult[]> {
    const outbox = (this.#outbox = new Outbox());
    const aborted = new AbortController();
    const alarm = new Alarm(() => aborted.abort(new ConnectError("the daemon is silent", Code.Unavailable)));
    this.#draining = false;
    this.#open();
    alarm.start(OPEN_MS);
    try {
      for await (const { frame } of this.#client.streamRollouts(outbox, { signal: aborted.signal })) {
        alarm.stop(); // what the caller does with results is not the daemon's silence
        switch (frame.case) {
          case "opened":
            this.#onOpened(frame.value);
            break;
          case "admissions":
            frame.value.admissions.forEach((admission) => this.#onAdmission(admission));
            break;
          case "results": {
            const fresh = this.#fresh(frame.value.results);
            if (fresh.length > 0) yield fresh;
            this.#onStored(fresh.length);
            break;
          }
          case "draining":
            this.#draining = true; // the rest is for the daemon that comes next
            break;
          case "summary":
            this.summary = frame.value;
        }
        this.#lastNews = Date.now();
        // A stream that only opens, and breaks again, is no reason to hurry.
        if (frame.case !== "opened") this.#pauseMs = FIRST_PAUSE_MS;
        this.#handIn();
        alarm.start(SILENT_INTERVALS * this.#intervalMs);
      }
      if (this.#givenUp) return;
      if (this.summary === undefined)
        throw new ConnectError("the stream ended without a summary", Code.Unavailable);
      // A daemon without a journal that shuts down ends the session for good.
      if (!this.#isDone()) throw new Error("the daemon shut down before every task was handed in");
    } finally {
      alarm.stop();
      outbox.close();
      aborted.abort();
    }
  }

  #send(frame: NonNullable<Request["frame"]>): void {
    this.#outbox.push({ frame });
  }

  #open(): void {
    const { clientName, resumeWindowMs } = this.#options;
    const value = {
      clientName,
      grantedRollouts: this.#granted(),
      maxMessageBytes: BigInt(MAX_MESSAGE_BYTES),
      sessionId: this.#sessionId,
      lastSequence: BigInt(this.#stored),
      resumeWindow: durationFromMs(resumeWindowMs),
    };
    this.#send({ case: "open", value });
  }

  #onOpened(opened: SessionOpened): void {
    this.#sessionId = opened.sessionId;
    this.#windowMs = durationMs(opened.resumeWindow ?? durationFromMs(0));
    this.#intervalMs = durationMs(opened.progressInterval ?? durationFromMs(10_000));
    this.#maxTaskBytes = Number(opened.maxMessageBytes);
    this.#options.onOpened(opened.sessionId);
    if (opened.resumed) this.#onResumed(opened);
    if (this.#givenUp) this.giveUp(); // while there was no stream to say so
  }

  #onResumed(opened: SessionOpened): void {
    this.reconnects += 1;
    this.#options.onNote(`session ${opened.sessionId} goes on after result ${this.#stored}`);
    this.#used = Number(opened.usedRollouts);
    this.#ack(); // the last one may have been lost
    // What the daemon has is not handed in again; what was lost on the way is.
    this.#accepted = new Set(opened.taskIds);
    if (this.#next !== undefined && this.#accepted.has(this.#next.taskId)) this.#pull();
    for (const [taskId, submission] of this.#unanswered) {
      if (this.#accepted.has(taskId)) this.#unanswered.delete(taskId);
      else this.#submit(submission);
    }
  }

  #onAdmission({ taskId, rejection }: TaskAdmission): void {
    const submission = this.#unanswered.get(taskId);
    if (submission === undefined) return;
    if (rejection !== undefined) this.#used -= cost(submission);
    if (rejection?.reason === ErrorReason.DRAINING) return; // stays unanswered: for the next daemon
    this.#unanswered.delete(taskId);
    if (rejection !== undefined) this.#options.onRejected(taskId, rejection);
  }

  /** The results that are not stored yet. */
  #fresh(results: RolloutResult[]): RolloutResult[] {
    const fresh = results.filter(({ sequence }) => sequence > this.#stored);
    for (const [index, { sequence }] of fresh.entries()) {
      const due = this.#stored + 1 + index;
      if (Number(sequence) !== due) throw new Error(`result ${sequence} came where ${due} was due`);
    }
    return fresh;
  }

  #onStored(count: number): void {
    this.#stored += count;
    this.#ack();
    this.#send({ case: "grant", value: { grantedRollouts: this.#granted() } });
  }

  #ack(): void {
    this.#send({ case: "ack", value: { throughSequence: BigInt(this.#stored) } });
  }

  /** Credits over the whole session: one more for each result that was stored. */
  #granted(): bigint {
    return BigInt(this.#stored + this.#options.credits);
  }

  /** Submits what there are credits for, and half-closes once every result is acknowledged: later no ack can be sent. */
  #handIn(): void {
    while (!this.#draining && this.#next !== undefined && this.#used + cost(this.#next) <= this.#granted()) {
      this.#unanswered.set(this.#next.taskId, this.#next);
      this.#submit(this.#next);
      this.#pull();
    }
    if (this.#isDone()) this.#outbox.close();
  }

  #submit(submission: TaskSubmission): void {
    const size = toBinary(TaskSubmissionSchema, submission).length;
    if (size + 64 > this.#maxTaskBytes)
      throw new Error(`task ${submission.taskId} has ${size} bytes; the daemon accepts ${this.#maxTaskBytes}`);
    this.#used += cost(submission);
    this.#send({ case: "submit", value: { tasks: [submission] } });
  }

  /** The next task that the daemon does not have. */
  #pull(): void {
    do {
      const { done, value } = this.#tasks.next();
      this.#next = done ? undefined : value;
    } while (this.#next !== undefined && this.#accepted.has(this.#next.taskId));
    if (this.#next !== undefined && cost(this.#next) > this.#options.credits) {
      throw new Error(
        `task ${this.#next.taskId} costs ${cost(this.#next)} credits: more than there will ever be`,
      );
    }
  }
}

/** Rings once unless it is stopped or started again before. */
class Alarm {
  #timer: NodeJS.Timeout | undefined;
  constructor(readonly ring: () => void) {}

  start(afterMs: number): void {
    this.stop();
    this.#timer = setTimeout(this.ring, afterMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** A task of rolloutCount 0 is run once. */
const cost = ({ rolloutCount }: TaskSubmission) => rolloutCount || 1;

/** The reason of a failed call as errors.proto names it; "" if it carries none. */
export function reasonOf(failure: ConnectError): string {
  return failure.findDetails(ErrorInfoSchema)[0]?.reason ?? "";
}
