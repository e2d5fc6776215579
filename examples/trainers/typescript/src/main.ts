// A trainer without a GPU: streams groups of rollouts, stores them, and prints their rewards. Killed at any time,
// it goes on where it was when the same command is given again.

import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { ErrorReason } from "./gen/gymapi/v1/errors_pb.js";
import { Outcome, type Task } from "./gen/gymapi/v1/rollout_pb.js";
import {
  TaskSubmissionSchema,
  type RolloutResult,
  type TaskSubmission,
} from "./gen/gymapi/v1/rollout_service_pb.js";
import { describeGroup, Groups } from "./groups.js";
import { readRows } from "./rows.js";
import { reasonOf, RolloutSession } from "./session.js";
import { Store } from "./store.js";

const USAGE = `npm start -- --address HOST:PORT --input FILE [options]
  --output FILE          results, one JSON object a line [rollouts.jsonl]
  --state FILE           a run that was killed goes on from here; removed at the end [OUTPUT.state]
  --groups N             groups to run; the rows come again when they run out [one for each row]
  --group-size N         rollouts in a group [8]
  --credits N            most rollouts under way, at least a group [4 groups]
  --resume-window N      seconds that the session outlives a broken stream, or this trainer [60]`;

// Reasons after which a session cannot go on.
const LOST = ["SESSION_NOT_FOUND", "RESUME_POINT_GONE"];

/** Group n asks row n, round and round; groups that are complete are left out. */
function* submissions(
  rows: Task[],
  groups: number,
  size: number,
  complete: Set<string>,
): Generator<TaskSubmission> {
  for (let number = 1; number <= groups; number++) {
    const groupId = `g${number}`;
    if (complete.has(groupId)) continue;
    const task = rows[(number - 1) % rows.length]!;
    yield create(TaskSubmissionSchema, { taskId: `t${number}`, groupId, task, rolloutCount: size });
  }
}

async function main(): Promise<number> {
  const options = readOptions();
  const text = readFileSync(options.input, "utf8");
  const rows = readRows(text);
  if (rows.length === 0) throw new Error(`${options.input} holds no rows`);
  const { groupSize, groups: wanted = rows.length } = options;

  const run = createHash("sha256").update(JSON.stringify([text, wanted, groupSize])).digest("hex");
  const store = new Store(options.output, options.state, run);
  const groups = new Groups(groupSize);
  for await (const result of store.results()) take(result, groups); // what a process before this one stored

  const session = new RolloutSession({
    address: options.address,
    clientName: "typescript-trainer",
    credits: options.credits,
    resumeWindowMs: options.resumeWindow * 1000,
    resume: store.resume,
    onOpened: (sessionId) => store.enter(sessionId),
    onRejected: (taskId, why) => say(`${taskId}  rejected: ${ErrorReason[why.reason]}: ${why.message}`),
    onNote: (note) => process.stderr.write(note + "\n"),
  });
  const interrupted = () => session.giveUp();
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted);
  try {
    for await (const results of session.run(submissions(rows, wanted, groupSize, groups.complete))) {
      store.append(results); // on the disk before the next are asked for, which acknowledges these
      for (const result of results) take(result, groups);
    }
  } catch (problem) {
    if (!(problem instanceof ConnectError) || !LOST.includes(reasonOf(problem))) throw problem;
    const { output, state } = options;
    const left = `${groups.complete.size} of ${wanted} groups are complete in ${output}`;
    const advice = `To run all of them in a new session, move it away, remove ${state}, and start again.`;
    throw new Error(`${reasonOf(problem)}: ${problem.rawMessage}. ${left}. ${advice}`, { cause: problem });
  } finally {
    session.close();
    store.close();
  }
  store.forget();
  report(session);
  return groups.complete.size === wanted ? 0 : 1;
}

/** Here a trainer with a GPU would train; this one prints the rewards of a group once it is complete. */
function take({ rollout }: RolloutResult, groups: Groups): void {
  const group = groups.add(rollout!);
  if (group !== undefined) say(describeGroup(group));
}

/** Prints the daemon's own account of the session. */
function report({ summary, reconnects }: RolloutSession): void {
  if (summary === undefined)
    return say("ended without a summary: given up, or it was lost with the last stream");
  const outcomes = summary.outcomeCounts.map(({ outcome, count }) => `${Outcome[outcome]} ${count}`);
  const tasks = `${summary.acceptedTaskCount} tasks accepted, ${summary.rejectedTaskCount} rejected`;
  say(`summary: ${tasks}, ${summary.resultCount} results (${outcomes.join(", ")}), ${reconnects} reconnects`);
}

function readOptions() {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      address: text,
      input: text,
      output: { ...text, default: "rollouts.jsonl" },
      state: text,
      groups: text,
      "group-size": { ...text, default: "8" },
      credits: text,
      "resume-window": { ...text, default: "60" },
    },
  });
  if (values.address === undefined || values.input === undefined) throw new Error(USAGE);
  const groupSize = count("group-size", values["group-size"]!);
  return {
    address: values.address,
    input: values.input,
    output: values.output!,
    state: values.state ?? `${values.output}.state`,
    groups: values.groups === undefined ? undefined : count("groups", values.groups),
    groupSize,
    credits: values.credits === undefined ? 4 * groupSize : count("credits", values.credits),
    resumeWindow: count("resume-window", values["resume-window"]!),
  };
}

function count(name: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`--${name} must be a whole number from 1, not '${text}'`);
  return Number(text);
}

function say(line: string): void {
  process.stdout.write(line + "\n");
}

main().then(
  (code) => (process.exitCode = code),
  (problem) => {
    const reason = problem instanceof ConnectError ? reasonOf(problem) : "";
    process.stderr.write(`${reason && reason + ": "}${problem.message}\n`);
    process.exitCode = 2;
  },
);
