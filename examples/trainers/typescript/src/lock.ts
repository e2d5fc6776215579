// One process at a time goes by a state file. Node has no locks on files that end with their process, so each
// process lays a file with its id beside the state. What a killed one leaves behind hinders nobody.

import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/**
 * Keeps a file to this process, until it ends, among the processes of this machine.
 *
 * @throws Error if another one has it.
 */
export function lock(path: string): void {
  const begin = basename(path) + ".lock-";
  const at = (pid: number) => join(dirname(path), begin + pid);
  writeFileSync(at(process.pid), ""); // before it looks: of two that begin together, one sees the other
  process.once("exit", () => rmSync(at(process.pid), { force: true }));
  for (const name of readdirSync(dirname(path))) {
    const pid = name.startsWith(begin) ? Number(name.slice(begin.length)) : NaN;
    if (!Number.isSafeInteger(pid) || pid === process.pid) continue;
    if (runs(pid)) {
      const advice = `end it, or choose another --state; if process ${pid} is no trainer, remove ${at(pid)}`;
      throw new Error(`another trainer goes by ${path}: ${advice}`);
    }
    rmSync(at(pid), { force: true });
  }
}

function runs(pid: number): boolean {
  try {
    return process.kill(pid, 0); // sends nothing
  } catch (problem) {
    return (problem as NodeJS.ErrnoException).code !== "ESRCH"; // it may be another user's
  }
}
