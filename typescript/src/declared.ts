import { inspect } from 'util';
import { Aws, Fn, Token } from 'aws-cdk-lib';
import { CDK_TYPES, MEMBERS } from './members';
import { SITE } from './tool';

/** The members of props by their keys in a file. */
const NAMES: Record<string, string> = Object.fromEntries(
  Object.values(MEMBERS).flatMap((members) => Object.entries(members).map(([name, [key]]) => [key, name])).reverse(),
);

/** Python's words for values, which the tool's messages quote. */
const OF_PYTHON: Record<string, string> = { False: 'false', None: 'undefined', True: 'true' };

/** Return the tool's message with members of props instead of a file's keys; `id` is the endpoint's ID in the file. */
export function inProps(text: string, path: string, id?: string): string {
  const linked = text.replace(/\bdocs\/([\w/-]+)\.md/g, (_, page) => `${SITE}/${page}/`);
  return id === undefined ? linked : linked
    .replace(/standard input:\d+:\d+ /g, '')
    .replaceAll(`endpoints.${id}`, () => path)
    .replace(/\b[a-z0-9]+(?:_[a-z0-9]+)+\b/g, (key) => Object.hasOwn(NAMES, key) ? NAMES[key] : key)
    .replace(/(?<=(?: = |': |, |\[))(?:True|False|None)(?=[,}\]\n]|$)/g, (word) => OF_PYTHON[word]);
}

/**
 * A member that each of the CDK's constructs and values has, and their conversion to text of a file. Without a conversion,
 * the text is the member's value.
 */
const WRITTEN: Record<string, [member: string, convert?: (value: any) => any]> = {
  Alarm: ['alarmArn'],
  AlarmAction: ['topicArn'],
  Bucket: ['bucketName'],
  Duration: ['toSeconds', (duration) => `${known(duration).toSeconds()}s`],
  Key: ['keyArn'],
  Latency: ['toMilliseconds', (duration) => `${known(duration).toMilliseconds({ integral: false })}ms`],
  RemovalPolicy: ['replaceAll', (policy) => policy.replaceAll('-', '_')],
  Role: ['roleArn'],
  SecurityGroup: ['securityGroupId'],
  Size: ['toMebibytes', (size) => `${known(size).toMebibytes()}MiB`],
  Topic: ['topicArn'],
  Vpc: ['vpcId', (vpc) => ({ vpc_id: vpc.vpcId, subnet_ids: vpc.selectSubnets().subnetIds })],
};

/** A token in text. */
const TOKEN = /(\$\{Token\[[^\]]+\]\})/;

/** Check a duration or a size, which a file has as text. */
function known(value: any): any {
  if (value.isUnresolved()) {
    throw new Error('it must be known at synthesis, but is a token');
  }
  return value;
}

/** Return a value as an error shows it; an object of a class by the name of the class. */
function shown(given: unknown): string {
  const kind = classOf(given);
  return kind === undefined ? inspect(given, { breakLength: Infinity, depth: 1, maxStringLength: 100 }) : `of the class ${kind}`;
}

/** Return the name of a value's class; undefined for plain values, lists and mappings. */
function classOf(given: unknown): string | undefined {
  const kind = typeof given === 'object' && !Array.isArray(given) ? given?.constructor?.name : undefined;
  return kind === 'Object' ? undefined : kind;
}

/** Return what a member of a shape takes, for an error. */
function taken(shape: string): string {
  const [, inner, suffix] = /^(.*?)((?:\[\]|\{\})?)$/.exec(shape)!;
  const one = CDK_TYPES[inner] ?? inner;
  if (suffix === '') {
    return one || 'text, a number or a Boolean';
  }
  return `${suffix === '[]' ? 'a list' : 'an object'}${one && ` of ${one}`}`;
}

/** Converts props to the content of a file. Tokens become parameters, with the tokens as values. */
export class Declared {
  /** The values of the parameters, by name. */
  public readonly values: Record<string, any> = {};
  /** Role names by parameter, for parameters whose value is a role's path and name. */
  public readonly roleNames: Record<string, string> = {};
  private readonly names = new Map<string, string>();
  private readonly roles = new Map<any, string>();

  /** The parameters in a file's format. */
  public get parameters(): Record<string, any> {
    const types = Object.entries(this.values).map(([name, value]) => [name, typeof value === 'number' ? 'Number' : 'String']);
    return Object.fromEntries(types.map(([name, type]) => [name, { type }]));
  }

  /**
   * Convert a member of props to its value in a file. MEMBERS describes shapes. JavaScript and the option `--transpile-only` of
   * ts-node check no types, so values of other types are refused here.
   */
  public value(given: any, shape: string, path: string): any {
    if (Array.isArray(given)) {
      if (Token.isUnresolved(given)) {
        throw new Error(`${path}: the number of items must be known at synthesis`);
      }
      return given.map((item, index) => this.value(item, shape.replace(/\[\]$/, ''), `${path}[${index}]`));
    }
    if (shape in WRITTEN) {
      return this.written(given, shape, path);
    }
    if (shape.endsWith('[]')) {
      throw new Error(`${path} is ${shown(given)}, but takes ${taken(shape)}`);
    }
    if (typeof given === 'string' || typeof given === 'number') {
      return this.plain(given);
    }
    if (typeof given !== 'object' || given === null) {
      return given;
    }
    if (classOf(given) !== undefined) {
      throw new Error(`${path} is ${shown(given)}, but takes ${taken(shape)}`);
    }
    if (shape in MEMBERS) {
      return this.members(given, shape, path);
    }
    const inner = shape.replace(/\{\}$/, '');
    return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, this.value(value, inner, `${path}.${key}`)]));
  }

  private written(given: any, shape: string, path: string): any {
    const [member, convert] = WRITTEN[shape];
    if (!(member in Object(given))) {
      throw new Error(`${path} is ${shown(given)}, but takes ${CDK_TYPES[shape]}`);
    }
    if (shape === 'Role') {
      return this.role(given);
    }
    let text: any;
    try {
      text = convert === undefined ? given[member] : convert(given);
    } catch (error) {
      throw new Error(`${path}: ${(error as Error).message}`);
    }
    return this.value(text, '', path);
  }

  private members(given: any, shape: string, path: string): any {
    const found: Record<string, any> = {};
    // A file names a bucket, but not its encryption key.
    const ofBucket = 'encryptionKey' in MEMBERS[shape] ? given.bucket?.encryptionKey : undefined;
    for (const [name, value] of Object.entries({ ...given, encryptionKey: given.encryptionKey ?? ofBucket })) {
      if (value !== undefined) {
        const [key, inner] = MEMBERS[shape][name] ?? [name, ''];
        if (key in found) {
          throw new Error(`${path}.${name} sets the same setting a second time: omit one of the two`);
        }
        found[key] = this.value(value, inner, `${path}.${name}`);
      }
    }
    return found;
  }

  private plain(given: string | number): string | number {
    if (typeof given === 'number') {
      return Token.isUnresolved(given) ? this.parameter(`${given}`, given) : given;
    }
    const parts = given.split(TOKEN);
    if (parts.some((part, index) => part.endsWith('$') && index < parts.length - 1)) {
      // The $ would escape a reference after it.
      return this.parameter(given, given);
    }
    return parts
      .map((part, index) => index % 2 === 0 ? part.replaceAll('${', () => '$${') : this.parameter(part, part))
      .join('');
  }

  /** Return a role's ARN in parts, so that it is not read as a name. Policies use its name, the end of the path. */
  private role(role: any): string {
    const arn: string = role.roleArn;
    if (!Token.isUnresolved(arn) || arn.startsWith('arn:')) {
      return this.plain(arn) as string;
    }
    const written = this.roles.get(role);
    if (written !== undefined) {
      return written;
    }
    const pathAndName = Fn.select(1, Fn.split(':role/', arn));
    const parts = `arn:${Aws.PARTITION}:iam::${Fn.select(4, Fn.split(':', arn))}:role/${pathAndName}`;
    const text = this.plain(parts) as string;
    this.roles.set(role, text);
    this.roleNames[this.names.get(pathAndName)!] = role.roleName;
    return text;
  }

  private parameter(token: string, value: any): string {
    const name = this.names.get(token) ?? `Token${this.names.size + 1}`;
    this.names.set(token, name);
    this.values[name] = value;
    return `\${${name}}`;
  }
}
