// What a trainer does with rewards, as far as it needs no GPU: groups, their mean and their spread.

import { Outcome, type Rollout } from "./gen/gymapi/v1/rollout_pb.js";

/**
 * Collects the rollouts of each group. It counts by itself: the frame `group_completed` comes behind the last
 * result of a group, and not again if that was acknowledged when the stream broke.
 */
export class Groups {
  /** Names of the groups whose last rollout was taken. */
  readonly complete = new Set<string>();
  readonly #open = new Map<string, Rollout[]>();

  constructor(readonly size: number) {}

  /** Takes a rollout; returns its group in order of the indices if it was the last one. */
  add(rollout: Rollout): Rollout[] | undefined {
    const rollouts = this.#open.get(rollout.groupId) ?? [];
    rollouts.push(rollout);
    this.#open.set(rollout.groupId, rollouts);
    if (rollouts.length < this.size) return undefined;
    this.#open.delete(rollout.groupId);
    this.complete.add(rollout.groupId);
    return rollouts.sort((one, other) => one.index - other.index);
  }
}

/** "g1  rewards 1 0 1 TIMED_OUT  mean 0.667  std 0.471": how a rollout ended stands where it has no reward. */
export function describeGroup(rollouts: Rollout[]): string {
  const values = rollouts.map((rollout) => rollout.reward?.value);
  const shown = rollouts.map((rollout, index) => values[index] ?? Outcome[rollout.outcome]);
  const rewards = values.filter((value) => value !== undefined) as number[];
  if (rewards.length === 0) return `${rollouts[0]!.groupId}  rewards ${shown.join(" ")}`;
  const mean = rewards.reduce((sum, value) => sum + value, 0) / rewards.length;
  const std = Math.sqrt(rewards.reduce((sum, value) => sum + (value - mean) ** 2, 0) / rewards.length);
  return `${rollouts[0]!.groupId}  rewards ${shown.join(" ")}  mean ${mean.toFixed(3)}  std ${std.toFixed(3)}`;
}
