import { Fn, Token, Tokenization } from 'aws-cdk-lib';
import { MEMBERS } from './members';

/** What constructs and values of the CDK are in a file: names, ARNs and text. */
const WRITTEN: Record<string, (value: any) => any> = {
  Alarm: (alarm) => alarm.alarmArn,
  AlarmAction: (topic) => topic.topicArn,
  Bucket: (bucket) => bucket.bucketName,
  Duration: (duration) => `${duration.toSeconds()}s`,
  Key: (key) => key.keyArn,
  RemovalPolicy: (policy) => policy.replaceAll('-', '_'),
  Role: (role) => Token.isUnresolved(role.roleArn) ? knownAsArn(role.roleArn) : role.roleArn,
  SecurityGroup: (group) => group.securityGroupId,
  Size: (size) => `${size.toMebibytes()}MiB`,
  Topic: (topic) => topic.topicArn,
  Vpc: (vpc) => ({ vpc_id: vpc.vpcId, subnet_ids: vpc.privateSubnets.map((subnet: any) => subnet.subnetId) }),
};

/** The ARN of a role in parts, so that it is not taken for a name. */
function knownAsArn(arn: string): string {
  return `arn:\${AWS::Partition}:iam::${Fn.select(4, Fn.split(':', arn))}:role/${Fn.select(1, Fn.split(':role/', arn))}`;
}

/** The content of a file that declares what props do. Tokens are parameters in it, which have them for values. */
export class Declared {
  /** The values of the parameters, by name. */
  public readonly values: Record<string, any> = {};
  private readonly names = new Map<string, string>();

  /** The parameters, as a file has them. */
  public get parameters(): Record<string, any> {
    const types = Object.entries(this.values).map(([name, value]) => [name, typeof value === 'number' ? 'Number' : 'String']);
    return Object.fromEntries(types.map(([name, type]) => [name, { type }]));
  }

  /** The value in a file of a member of props; see MEMBERS for what its shape is. */
  public value(given: any, shape: string): any {
    if (Array.isArray(given)) {
      if (Token.isUnresolved(given)) {
        throw new Error(`${given}: how many items a list has must be known at synthesis`);
      }
      return given.map((item) => this.value(item, shape.replace(/\[\]$/, '')));
    }
    if (typeof given === 'string' || typeof given === 'number') {
      return this.plain(shape in WRITTEN ? WRITTEN[shape](given) : given);
    }
    if (typeof given !== 'object' || given === null) {
      return given;
    }
    if (shape in MEMBERS) {
      return this.members(given, shape);
    }
    if (shape in WRITTEN) {
      return this.value(WRITTEN[shape](given), '');
    }
    const inner = shape.replace(/\{\}$/, '');
    return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, this.value(value, inner)]));
  }

  private members(given: any, shape: string): any {
    const members = Object.entries(given).filter(([, value]) => value !== undefined);
    return Object.fromEntries(members.map(([name, value]) => {
      const [key, inner] = MEMBERS[shape][name] ?? [name, ''];
      return [key, this.value(value, inner)];
    }));
  }

  private plain(given: string | number): string | number {
    if (!Token.isUnresolved(given)) {
      return given;
    }
    if (typeof given === 'number') {
      return this.parameter(`${given}`, given);
    }
    return Tokenization.reverseString(given)
      .mapTokens({ mapToken: (token) => this.parameter(`${token}`, token) })
      .join({ join: (left, right) => `${left ?? ''}${right ?? ''}` });
  }

  private parameter(token: string, value: any): string {
    const name = this.names.get(token) ?? `Token${this.names.size + 1}`;
    this.names.set(token, name);
    this.values[name] = value;
    return `\${${name}}`;
  }
}
