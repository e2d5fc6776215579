// The environment itself: a warehouse whose records do not agree with its shelves. No gRPC in here.

/** What the model can correct: it is answered to the model, not to the caller. */
export class ToolError extends Error {}

/** A task whose fields do not fit; `field` names the first that does not. */
export class TaskError extends Error {
  constructor(
    readonly field: string,
    problem: string,
  ) {
    super(`${field} ${problem}`);
  }
}

type Arguments = Record<string, unknown>;

interface Tool {
  description: string;
  parameters: {
    type: "object";
    properties: Record<string, object>;
    required: string[];
    additionalProperties: false;
  };
  run(warehouse: Warehouse, args: Arguments): object;
}

const MAX_COUNT = 1_000_000;

/** The state of one session. */
export class Warehouse {
  /** What lies on each shelf, by item. Never changes. */
  readonly shelves: Map<string, Map<string, number>>;
  /** What the books say of each item. The model corrects them. */
  readonly records: Map<string, number>;

  /**
   * Reads `shelves` ({"A": {"bolts": 4}}) and `records` ({"bolts": 5}) of a dataset row.
   * @throws TaskError
   */
  constructor(fieldsJson: string) {
    const fields = objectOf("task.fields_json", parsed("task.fields_json", fieldsJson || "{}"));
    const shelves = Object.entries(objectOf("task.fields_json.shelves", fields.shelves));
    this.shelves = new Map(
      shelves.map(([shelf, items]) => [shelf, counts(`task.fields_json.shelves.${shelf}`, items)]),
    );
    this.records = counts("task.fields_json.records", fields.records);
    for (const item of this.stock().keys()) {
      if (!this.records.has(item))
        throw new TaskError("task.fields_json.records", `lacks ${item}, which is on a shelf`);
    }
  }

  /** What is really there, by item. */
  stock(): Map<string, number> {
    const stock = new Map([...this.records.keys()].map((item) => [item, 0]));
    for (const items of this.shelves.values()) {
      for (const [item, count] of items) stock.set(item, (stock.get(item) ?? 0) + count);
    }
    return stock;
  }

  /** The items whose record is wrong, with what is recorded and what is there. */
  wrong(): Record<string, { recorded: number; counted: number }> {
    const found = [...this.stock()].filter(([item, counted]) => this.records.get(item) !== counted);
    return Object.fromEntries(
      found.map(([item, counted]) => [item, { recorded: this.records.get(item)!, counted }]),
    );
  }
}

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  [
    "read_records",
    {
      description: "Read the recorded count of every item, and the names of the shelves.",
      parameters: { type: "object", properties: {}, required: [], additionalProperties: false },
      run: ({ records, shelves }) => ({ records: Object.fromEntries(records), shelves: [...shelves.keys()] }),
    },
  ],
  [
    "count_shelf",
    {
      description: "Count what lies on one shelf. The same item may lie on several shelves.",
      parameters: {
        type: "object",
        properties: { shelf: { type: "string" } },
        required: ["shelf"],
        additionalProperties: false,
      },
      run({ shelves }, { shelf }) {
        if (typeof shelf !== "string") throw new ToolError("shelf must be a string");
        const items = shelves.get(shelf);
        if (items === undefined)
          throw new ToolError(`there is no shelf '${shelf}'; there are ${[...shelves.keys()].join(", ")}`);
        return Object.fromEntries(items);
      },
    },
  ],
  [
    "set_record",
    {
      description: "Correct the recorded count of an item: the sum over all shelves.",
      parameters: {
        type: "object",
        properties: { item: { type: "string" }, count: { type: "integer", minimum: 0, maximum: MAX_COUNT } },
        required: ["item", "count"],
        additionalProperties: false,
      },
      run({ records }, { item, count }) {
        if (typeof item !== "string") throw new ToolError("item must be a string");
        if (!records.has(item))
          throw new ToolError(`there is no record of '${item}'; there are ${[...records.keys()].join(", ")}`);
        if (!isCount(count)) throw new ToolError(`count must be a whole number from 0 to ${MAX_COUNT}`);
        records.set(item, count);
        return { item, count };
      },
    },
  ],
]);

/**
 * Runs a tool with arguments as the model wrote them: any text.
 * @throws ToolError
 */
export function callTool(tool: Tool, warehouse: Warehouse, argumentsJson: string): string {
  let args: unknown;
  try {
    args = JSON.parse(argumentsJson || "{}");
  } catch (problem) {
    throw new ToolError(`the arguments are no JSON: ${(problem as Error).message}`);
  }
  if (!isObject(args)) throw new ToolError("the arguments must be a JSON object");
  for (const name of Object.keys(args)) {
    if (!Object.hasOwn(tool.parameters.properties, name))
      throw new ToolError(`there is no parameter '${name}'`);
  }
  for (const name of tool.parameters.required) {
    if (!Object.hasOwn(args, name)) throw new ToolError(`${name} is missing`);
  }
  return JSON.stringify(tool.run(warehouse, args));
}

/** 1 if every record is right, else 0, and the share of right ones as a part of its own. */
export function score(warehouse: Warehouse): { value: number; rightRecords: number; wrong: object } {
  const wrong = warehouse.wrong();
  const count = Object.keys(wrong).length;
  return { value: count === 0 ? 1 : 0, rightRecords: 1 - count / Math.max(1, warehouse.records.size), wrong };
}

// ---- reading a task

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_COUNT;
}

function parsed(field: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new TaskError(field, "is no JSON");
  }
}

function objectOf(field: string, value: unknown): Record<string, unknown> {
  if (!isObject(value)) throw new TaskError(field, "must be an object");
  return value;
}

function counts(field: string, value: unknown): Map<string, number> {
  const found = new Map<string, number>();
  for (const [item, count] of Object.entries(objectOf(field, value))) {
    if (!isCount(count))
      throw new TaskError(`${field}.${item}`, `must be a whole number from 0 to ${MAX_COUNT}`);
    found.set(item, count);
  }
  return found;
}
