// What is on the disk before a result is acknowledged: the results, and the state from which a trainer that
// was killed goes on. The state is replaced as a whole, after the results that it counts are written: whenever
// the process ends, it says which part of the results is whole. What stands behind that part comes again.

import { fromJson, toJson } from "@bufbuild/protobuf";
import {
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";

import { RolloutResultSchema, type RolloutResult } from "./gen/gymapi/v1/rollout_service_pb.js";
import { lock } from "./lock.js";

/** The content of the state file. */
interface State {
  /** What the run does. The state of another one must not be taken for it. */
  run: string;
  sessionId: string;
  /** Number of the last result that is stored. */
  lastSequence: number;
  /** Length of the results file up to its end. */
  bytes: number;
}

/** A file of results, a line {"sequence": "7", "rollout": {...}} in protobuf's JSON form each, and its state. */
export class Store {
  /** The session that an earlier process began; undefined: there is none. */
  readonly resume: { sessionId: string; lastSequence: number } | undefined;
  readonly #file: number;
  #state: State;

  /**
   * @param run any text that two runs share only if they do the same.
   * @throws Error if the files are those of another run, or another process goes by them.
   */
  constructor(
    readonly resultsPath: string,
    readonly statePath: string,
    run: string,
  ) {
    lock(statePath);
    const found = readState(statePath);
    if (found !== undefined && found.run !== run)
      throw new Error(`${statePath} is of other rows or groups: give the same, or choose another --state`);
    this.resume = found;
    this.#state = found ?? { run, sessionId: "", lastSequence: 0, bytes: 0 };
    this.#file = openSync(resultsPath, "a");
    const { size } = fstatSync(this.#file);
    const { bytes } = this.#state;
    if (found === undefined && size > 0)
      throw new Error(`${resultsPath} exists, and no ${statePath} to go on from: choose another --output`);
    if (size < bytes)
      throw new Error(`${resultsPath} has ${size} bytes of the ${bytes} that ${statePath} counts: put it back`);
  }

  /** The results that an earlier process stored. */
  async *results(): AsyncGenerator<RolloutResult> {
    if (this.#state.bytes === 0) return;
    // Not by readline: it may end a line at U+2028 too, which a model can write and JSON leaves as it is.
    const chunks = createReadStream(this.resultsPath, { end: this.#state.bytes - 1, encoding: "utf8" });
    let begun: string[] = []; // of a line whose end is to come
    for await (const chunk of chunks as AsyncIterable<string>) {
      const [first, ...others] = chunk.split("\n");
      begun.push(first!);
      for (const next of others) {
        yield fromJson(RolloutResultSchema, JSON.parse(begun.join("")));
        begun = [next];
      }
    }
  }

  /** The session has begun, or goes on: what stands behind the whole results comes again. */
  enter(sessionId: string): void {
    ftruncateSync(this.#file, this.#state.bytes);
    if (sessionId === this.#state.sessionId) return;
    syncFolder(this.resultsPath);
    this.#save({ sessionId });
  }

  /** Returns when the results, and the state that counts them, are on the disk. */
  append(results: RolloutResult[]): void {
    const lines = results.map((result) =>
      JSON.stringify(toJson(RolloutResultSchema, result, { useProtoFieldName: true })),
    );
    writeFileSync(this.#file, lines.map((line) => line + "\n").join(""));
    fsyncSync(this.#file);
    this.#save({ lastSequence: Number(results.at(-1)!.sequence), bytes: fstatSync(this.#file).size });
  }

  /** The session is over: there is nothing to go on with. */
  forget(): void {
    rmSync(this.statePath, { force: true });
  }

  close(): void {
    closeSync(this.#file);
  }

  /** Puts a new state in the place of the old one once it is on the disk: one of them is always there, whole. */
  #save(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change };
    const fresh = openSync(this.statePath + ".new", "w");
    writeFileSync(fresh, JSON.stringify(this.#state) + "\n");
    fsyncSync(fresh);
    closeSync(fresh);
    renameSync(this.statePath + ".new", this.statePath);
    syncFolder(this.statePath);
  }
}

function readState(path: string): State | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const { run, sessionId, lastSequence, bytes } = JSON.parse(readFileSync(path, "utf8")) ?? {};
    if (typeof run === "string" && typeof sessionId === "string" && sessionId !== "")
      if (Number.isSafeInteger(lastSequence) && Number.isSafeInteger(bytes))
        return { run, sessionId, lastSequence, bytes };
  } catch (problem) {
    if (!(problem instanceof SyntaxError)) throw problem;
  }
  throw new Error(`${path} is no state of this trainer: choose another --state`);
}

/** Puts the name of a new or renamed file on the disk. */
function syncFolder(path: string): void {
  const folder = openSync(dirname(path), "r");
  fsyncSync(folder);
  closeSync(folder);
}
