import { Aws, Fn, Token } from 'aws-cdk-lib';
import { MEMBERS } from './members';
import { SITE } from './tool';

/** The members of props by their keys in a file, where the two differ. */
const NAMES: Record<string, string> = Object.fromEntries(
  Object.values(MEMBERS).flatMap((members) => Object.entries(members).map(([name, [key]]) => [key, name])).reverse(),
);

/** What the tool says, with the members of props in place of the keys of a file; `id` is the endpoint's in that. */
export function inProps(text: string, path: string, id?: string): string {
  const linked = text.replace(/\bdocs\/([\w/-]+)\.md/g, (_, page) => `${SITE}/${page}/`);
  return id === undefined ? linked : linked
    .replace(/standard input:\d+:\d+ /g, '')
    .replaceAll(`endpoints.${id}`, () => path)
    .replace(/\b[a-z0-9]+(?:_[a-z0-9]+)+\b/g, (key) => Object.hasOwn(NAMES, key) ? NAMES[key] : key);
}

/** What constructs and values of the CDK are in a file: names, ARNs and text. */
const WRITTEN: Record<string, (value: any) => any> = {
  Alarm: (alarm) => alarm.alarmArn,
  AlarmAction: (topic) => topic.topicArn,
  Bucket: (bucket) => bucket.bucketName,
  Duration: (duration) => `${known(duration).toSeconds()}s`,
  Key: (key) => key.keyArn,
  RemovalPolicy: (policy) => policy.replaceAll('-', '_'),
  SecurityGroup: (group) => group.securityGroupId,
  Size: (size) => `${known(size).toMebibytes()}MiB`,
  Topic: (topic) => topic.topicArn,
  Vpc: (vpc) => ({ vpc_id: vpc.vpcId, subnet_ids: vpc.selectSubnets().subnetIds }),
};

/** A token in text. */
const TOKEN = /(\$\{Token\[[^\]]+\]\})/;

/** A duration or a size, which a file has as text. */
function known(value: any): any {
  if (value.isUnresolved()) {
    throw new Error('it must be known at synthesis, and is a token');
  }
  return value;
}

/** The content of a file that declares what props do. Tokens are parameters in it, which have them for values. */
export class Declared {
  /** The values of the parameters, by name. */
  public readonly values: Record<string, any> = {};
  /** The names of the roles whose path and name is the value of a parameter, by that. */
  public readonly roleNames: Record<string, string> = {};
  private readonly names = new Map<string, string>();
  private readonly roles = new Map<any, string>();

  /** The parameters, as a file has them. */
  public get parameters(): Record<string, any> {
    const types = Object.entries(this.values).map(([name, value]) => [name, typeof value === 'number' ? 'Number' : 'String']);
    return Object.fromEntries(types.map(([name, type]) => [name, { type }]));
  }

  /** The value in a file of a member of props; see MEMBERS for what its shape is. */
  public value(given: any, shape: string, path: string): any {
    if (Array.isArray(given)) {
      if (Token.isUnresolved(given)) {
        throw new Error(`${path}: how many items a list has must be known at synthesis`);
      }
      return given.map((item, index) => this.value(item, shape.replace(/\[\]$/, ''), `${path}[${index}]`));
    }
    if (typeof given === 'string' || typeof given === 'number') {
      return this.plain(shape in WRITTEN ? WRITTEN[shape](given) : given);
    }
    if (typeof given !== 'object' || given === null) {
      return given;
    }
    if (shape === 'Role') {
      return this.role(given);
    }
    if (shape in MEMBERS) {
      return this.members(given, shape, path);
    }
    if (shape in WRITTEN) {
      try {
        return this.value(WRITTEN[shape](given), '', path);
      } catch (error) {
        throw new Error(`${path}: ${(error as Error).message}`);
      }
    }
    const inner = shape.replace(/\{\}$/, '');
    return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, this.value(value, inner, `${path}.${key}`)]));
  }

  private members(given: any, shape: string, path: string): any {
    const found: Record<string, any> = {};
    // A file names a bucket, and not the key that it is encrypted with.
    const ofBucket = 'encryptionKey' in MEMBERS[shape] ? given.bucket?.encryptionKey : undefined;
    for (const [name, value] of Object.entries({ ...given, encryptionKey: given.encryptionKey ?? ofBucket })) {
      if (value !== undefined) {
        const [key, inner] = MEMBERS[shape][name] ?? [name, ''];
        if (key in found) {
          throw new Error(`${path}.${name} is a second way to give one setting: leave one of the two out`);
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
      // Before a reference, the character would escape it.
      return this.parameter(given, given);
    }
    return parts
      .map((part, index) => index % 2 === 0 ? part.replaceAll('${', () => '$${') : this.parameter(part, part))
      .join('');
  }

  /** The ARN of a role in parts, so that it is not taken for a name; policies have its name, which is the path's end. */
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
