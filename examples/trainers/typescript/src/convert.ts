// OpenAI JSON -> messages of responses.proto, by the mapping rules in the head of that file.
//
// The rules are read off the descriptors, so every item, part and tool that the contract types is understood
// and nothing is listed twice. A key or a value that the contract has no place for is refused with its path:
// a task that is not what its author wrote must not be trained on. Two liberties: a key that is null counts as
// absent, and `json_form`, which only keeps the exact spelling of the JSON, stays unset.

import {
  ScalarType,
  type DescField,
  type DescMessage,
  type Message,
  type MessageShape,
} from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import { isInteger, isLosslessNumber, stringify } from "lossless-json";

type JsonObject = Record<string, unknown>;

/** JSON that does not fit the contract; the text begins with the path. */
export class Misfit extends Error {}

/**
 * Reads a JSON object into a message.
 * @param value JSON as lossless-json parses it: numbers keep their digits.
 * @param path where it stands, for the text of an error.
 * @throws Misfit
 */
export function readMessage<D extends DescMessage>(desc: D, value: unknown, path: string): MessageShape<D> {
  if (!isObject(value)) throw new Misfit(`${path}: expected an object`);
  return readObject(desc, value, path).message as Message as MessageShape<D>;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isLosslessNumber(value);
}

function readObject(desc: DescMessage, value: JsonObject, path: string, skipped = ""): ReflectMessage {
  const message = reflect(desc);
  for (const [key, element] of Object.entries(value)) {
    if (element === null || key === skipped) continue;
    const where = `${path}.${key}`;
    const forms = keysOf(desc).get(key);
    if (forms === undefined) throw new Misfit(`${where}: the contract has no such key in ${desc.name}`);
    const field = forms.find((form) => fits(form, element));
    if (field === undefined)
      throw new Misfit(`${where}: the value has not the form that ${desc.name} asks for`);
    setField(message, field, element, where);
  }
  return message;
}

function setField(message: ReflectMessage, field: DescField, value: unknown, path: string): void {
  if (field.fieldKind === "list") {
    for (const [index, element] of (value as unknown[]).entries()) {
      message.get(field).add(readValue(field, element, `${path}[${index}]`));
    }
  } else if (field.fieldKind === "map") {
    for (const [key, element] of Object.entries(value as JsonObject)) {
      message.get(field).set(key, readValue(field, element, `${path}.${key}`));
    }
  } else if (isRaw(field)) {
    message.set(field, stringify(value) as string);
  } else {
    message.set(field, readValue(field, value, path));
  }
}

/** One value: that of a plain field, or one element of a list or a map. */
function readValue(field: DescField, value: unknown, path: string): any {
  if (field.message !== undefined) return readAny(field.message, value, path);
  const read = readScalar(field, value);
  if (read === undefined) throw new Misfit(`${path}: the value has not the type that the contract asks for`);
  return read;
}

/** The value as protobuf-es holds it; undefined if it does not fit. */
function readScalar(field: DescField, value: unknown): string | boolean | number | bigint | undefined {
  switch (field.scalar) {
    case ScalarType.STRING:
      return typeof value === "string" ? value : undefined;
    case ScalarType.BOOL:
      return typeof value === "boolean" ? value : undefined;
    case ScalarType.DOUBLE:
      return isLosslessNumber(value) ? Number(value.value) : undefined;
    case ScalarType.INT64:
      return isLosslessNumber(value) && isInteger(value.value) ? BigInt(value.value) : undefined;
    case ScalarType.INT32:
      return isLosslessNumber(value) && isInteger(value.value) ? Number(value.value) : undefined;
    default:
      return undefined; // responses.proto mirrors JSON with no other
  }
}

/** A message, whatever it mirrors: a tagged union, a list, or an object. */
function readAny(desc: DescMessage, value: unknown, path: string): ReflectMessage {
  if (isUnion(desc)) return readUnion(desc, value, path);
  if (isWrapper(desc)) {
    const message = reflect(desc);
    if (!Array.isArray(value)) throw new Misfit(`${path}: expected a list`);
    setField(message, desc.fields[0]!, value, path);
    return message;
  }
  if (!isObject(value)) throw new Misfit(`${path}: expected an object`);
  return readObject(desc, value, path);
}

/** An object whose `type` names the arm, or a bare string (the tool choice "auto"). */
function readUnion(desc: DescMessage, value: unknown, path: string): ReflectMessage {
  const message = reflect(desc);
  const arms = desc.oneofs.find((oneof) => oneof.name === "kind")!.fields;
  const bare = arms.find((arm) => arm.message === undefined);
  if (typeof value === "string" && bare !== undefined) {
    message.set(bare, value);
    return message;
  }
  if (!isObject(value)) throw new Misfit(`${path}: expected an object with a "type"`);
  const type = value.type ?? shortType(desc, value);
  const arm = arms.find((candidate) => candidate.message !== undefined && candidate.name === type);
  if (arm?.message === undefined || arm.name === "unknown") {
    throw new Misfit(`${path}: the contract knows no ${desc.name} of type ${stringify(type) ?? "(none)"}`);
  }
  message.set(arm, readObject(arm.message, value, path, "type"));
  return message;
}

/** What an item without `type` is: {"role", "content"} is a message, {"id"} refers to a stored item. */
function shortType(desc: DescMessage, value: JsonObject): string | undefined {
  if (desc.name !== "Item") return undefined;
  if ("role" in value) return "message";
  return Object.keys(value).every((key) => key === "id" || key === "type") ? "item_reference" : undefined;
}

// ---- the rules, read off the descriptors

const tables = new Map<DescMessage, Map<string, DescField[]>>();

/** The fields by the JSON key that they stand for; a oneof's name stands for all its arms. */
function keysOf(desc: DescMessage): Map<string, DescField[]> {
  let table = tables.get(desc);
  if (table === undefined) {
    table = new Map();
    for (const field of desc.fields) {
      if (field.name === "json_form") continue;
      const key = field.oneof?.name ?? jsonKey(field);
      table.set(key, [...(table.get(key) ?? []), field]);
    }
    tables.set(desc, table);
  }
  return table;
}

function fits(field: DescField, value: unknown): boolean {
  if (field.fieldKind === "list" || (field.message !== undefined && isWrapper(field.message))) {
    return Array.isArray(value);
  }
  if (field.fieldKind === "map") return isObject(value);
  if (field.message !== undefined)
    return isObject(value) || (isUnion(field.message) && typeof value === "string");
  if (isRaw(field)) return true;
  return readScalar(field, value) !== undefined;
}

const isUnion = (desc: DescMessage) => desc.oneofs.some((oneof) => oneof.name === "kind");
const isWrapper = (desc: DescMessage) => desc.fields.length === 1 && desc.fields[0]!.fieldKind === "list";
const hasOwnJsonName = (field: DescField) =>
  field.jsonName !== field.name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

/** Whether the field holds a JSON value as text. */
const isRaw = (field: DescField) => field.name.endsWith("_json") && !hasOwnJsonName(field);

function jsonKey(field: DescField): string {
  if (hasOwnJsonName(field)) return field.jsonName;
  return isRaw(field) ? field.name.slice(0, -"_json".length) : field.name;
}
