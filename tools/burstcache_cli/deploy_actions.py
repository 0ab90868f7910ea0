"""The actions that CloudFormation takes with the deploying role's permissions, by resource type of the template.

Source:
    CloudFormation's resource schemas, handlers' permissions, as of August 2026, without actions for properties that the
        template does not have, such as replicas, imports, code signing and inventories.
    Service Authorization Reference, for AWS::Budgets::Budget and AWS::ServiceDiscovery::PrivateDnsNamespace, whose
        schemas have no handlers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def _actions(text: str) -> tuple[str, ...]:
    """Return the actions in a text that names a service once, before its actions."""
    return tuple(_named(text))


def _named(text: str) -> Iterator[str]:
    service = ""
    for word in text.split():
        if word.endswith(":"):
            service = word
        else:
            yield service + word


ACTIONS: Mapping[str, tuple[str, ...]] = {
    "AWS::ApiGatewayV2::Api": _actions("apigateway: DELETE GET PATCH POST PUT "),
    "AWS::ApiGatewayV2::Stage": _actions(
        "apigateway: DELETE GET PATCH POST PUT TagResource UntagResource "
        "logs: CreateLogDelivery DeleteLogDelivery DescribeLogGroups DescribeResourcePolicies GetLogDelivery "
        "ListLogDeliveries PutResourcePolicy UpdateLogDelivery "
    ),
    "AWS::Budgets::Budget": _actions("budgets: ListTagsForResource ModifyBudget TagResource UntagResource ViewBudget "),
    "AWS::CloudWatch::Alarm": _actions(
        "cloudwatch: DeleteAlarms DescribeAlarms ListTagsForResource PutMetricAlarm TagResource UntagResource "
    ),
    "AWS::CloudWatch::Dashboard": _actions(
        "cloudwatch: DeleteDashboards GetDashboard ListTagsForResource PutDashboard TagResource UntagResource "
    ),
    "AWS::DynamoDB::Table": _actions(
        "dynamodb: CreateTable DeleteTable DescribeContinuousBackups DescribeContributorInsights DescribeTable "
        "DescribeTimeToLive ListTagsOfResource TagResource UntagResource UpdateContinuousBackups "
        "UpdateContributorInsights UpdateTable UpdateTimeToLive "
        "kms: CreateGrant Decrypt DescribeKey RevokeGrant "
        "logs: CreateLogGroup DescribeLogGroups PutRetentionPolicy "
    ),
    "AWS::EC2::EgressOnlyInternetGateway": _actions(
        "ec2: CreateEgressOnlyInternetGateway CreateTags DeleteEgressOnlyInternetGateway DeleteTags "
        "DescribeEgressOnlyInternetGateways DescribeTags DescribeVpcs "
    ),
    "AWS::EC2::Instance": _actions(
        "ec2: AssociateIamInstanceProfile AttachVolume CreateTags DeleteTags "
        "DescribeIamInstanceProfileAssociations DescribeInstanceAttribute DescribeInstanceCreditSpecifications "
        "DescribeInstances DescribeLaunchTemplateVersions DescribeLaunchTemplates DescribeNetworkInterfaces "
        "DescribeSecurityGroups DescribeSubnets DescribeVolumes DescribeVpcs DetachVolume "
        "DisassociateIamInstanceProfile ModifyInstanceAttribute ModifyInstanceCreditSpecification "
        "ModifyInstanceMaintenanceOptions ModifyInstanceMetadataOptions ReplaceIamInstanceProfileAssociation "
        "RunInstances StartInstances StopInstances TerminateInstances "
    ),
    "AWS::EC2::InternetGateway": _actions(
        "ec2: CreateInternetGateway CreateTags DeleteInternetGateway DeleteTags DescribeInternetGateways "
    ),
    "AWS::EC2::LaunchTemplate": _actions(
        "ec2: CreateLaunchTemplate CreateLaunchTemplateVersion CreateTags DeleteLaunchTemplate DeleteTags "
        "DescribeLaunchTemplateVersions DescribeLaunchTemplates "
    ),
    "AWS::EC2::Route": _actions(
        "ec2: CreateRoute DeleteRoute DescribeNetworkInterfaces DescribeRouteTables ReplaceRoute "
    ),
    "AWS::EC2::RouteTable": _actions(
        "ec2: CreateRouteTable CreateTags DeleteRouteTable DeleteTags DescribeRouteTables "
    ),
    "AWS::EC2::SecurityGroup": _actions(
        "ec2: AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress CreateSecurityGroup CreateTags "
        "DeleteSecurityGroup DeleteTags DescribeInstances DescribeSecurityGroups RevokeSecurityGroupEgress "
        "RevokeSecurityGroupIngress UpdateSecurityGroupRuleDescriptionsEgress "
        "UpdateSecurityGroupRuleDescriptionsIngress "
    ),
    "AWS::EC2::SecurityGroupEgress": _actions(
        "ec2: AuthorizeSecurityGroupEgress DescribeSecurityGroupRules RevokeSecurityGroupEgress "
        "UpdateSecurityGroupRuleDescriptionsEgress "
    ),
    "AWS::EC2::SecurityGroupIngress": _actions(
        "ec2: AuthorizeSecurityGroupIngress DescribeSecurityGroupRules DescribeSecurityGroups "
        "RevokeSecurityGroupIngress UpdateSecurityGroupRuleDescriptionsIngress "
    ),
    "AWS::EC2::Subnet": _actions(
        "ec2: AssociateSubnetCidrBlock CreateSubnet CreateTags DeleteSubnet DeleteTags DescribeNetworkAcls "
        "DescribeSubnets DisassociateSubnetCidrBlock ModifySubnetAttribute "
    ),
    "AWS::EC2::SubnetRouteTableAssociation": _actions(
        "ec2: AssociateRouteTable DescribeRouteTables DescribeSubnets DisassociateRouteTable "
        "ReplaceRouteTableAssociation "
    ),
    "AWS::EC2::VPC": _actions(
        "ec2: CreateTags CreateVpc DeleteTags DeleteVpc DescribeNetworkAcls DescribeSecurityGroups "
        "DescribeVpcAttribute DescribeVpcs ModifyVpcAttribute "
    ),
    "AWS::EC2::VPCCidrBlock": _actions("ec2: AssociateVpcCidrBlock DescribeVpcs DisassociateVpcCidrBlock "),
    "AWS::EC2::VPCEndpoint": _actions(
        "ec2: CreateTags CreateVpcEndpoint DeleteTags DeleteVpcEndpoints DescribeSecurityGroups DescribeSubnets "
        "DescribeVpcEndpoints DescribeVpcs ModifyVpcEndpoint "
    ),
    "AWS::EC2::VPCGatewayAttachment": _actions(
        "ec2: AttachInternetGateway DescribeInternetGateways DetachInternetGateway "
    ),
    "AWS::EC2::Volume": _actions(
        "ec2: CreateSnapshot CreateTags CreateVolume DeleteTags DeleteVolume DescribeSnapshots DescribeTags "
        "DescribeVolumeAttribute DescribeVolumes DescribeVolumesModifications ModifyVolume ModifyVolumeAttribute "
        "kms: CreateGrant GenerateDataKeyWithoutPlaintext "
    ),
    "AWS::ECS::Cluster": _actions(
        "ecs: CreateCluster DeleteCluster DescribeClusters ListTagsForResource PutClusterCapacityProviders "
        "TagResource UntagResource UpdateCluster UpdateClusterSettings "
        "kms: DescribeKey "
    ),
    "AWS::ECS::Service": _actions(
        "ecs: CreateService DeleteService DescribeServiceDeployments DescribeServices ListServiceDeployments "
        "ListTagsForResource StopServiceDeployment TagResource UntagResource UpdateService "
    ),
    "AWS::ECS::TaskDefinition": _actions(
        "ecs: DeregisterTaskDefinition DescribeTaskDefinition ListTagsForResource RegisterTaskDefinition "
        "TagResource UntagResource "
        "iam: GetRole "
    ),
    "AWS::ElasticLoadBalancingV2::Listener": _actions(
        "elasticloadbalancing: AddTags CreateListener DeleteListener DescribeListenerAttributes DescribeListeners "
        "DescribeTags ModifyListener ModifyListenerAttributes RemoveTags "
    ),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": _actions(
        "elasticloadbalancing: AddTags CreateLoadBalancer DeleteLoadBalancer DescribeLoadBalancerAttributes "
        "DescribeLoadBalancers DescribeTags ModifyLoadBalancerAttributes RemoveTags SetIpAddressType "
        "SetSecurityGroups SetSubnets "
    ),
    "AWS::ElasticLoadBalancingV2::TargetGroup": _actions(
        "elasticloadbalancing: AddTags CreateTargetGroup DeleteTargetGroup DeregisterTargets DescribeTags "
        "DescribeTargetGroupAttributes DescribeTargetGroups DescribeTargetHealth ModifyTargetGroup "
        "ModifyTargetGroupAttributes RegisterTargets RemoveTags "
    ),
    "AWS::Events::EventBus": _actions(
        "events: CreateEventBus DeleteEventBus DescribeEventBus ListTagsForResource TagResource UntagResource "
        "UpdateEventBus "
        "kms: Decrypt DescribeKey GenerateDataKey GenerateDataKeyWithoutPlaintext "
    ),
    "AWS::Events::Rule": _actions(
        "events: DeleteRule DescribeRule ListTagsForResource ListTargetsByRule PutRule PutTargets RemoveTargets "
        "TagResource UntagResource "
    ),
    "AWS::IAM::InstanceProfile": _actions(
        "iam: AddRoleToInstanceProfile CreateInstanceProfile DeleteInstanceProfile GetInstanceProfile "
        "RemoveRoleFromInstanceProfile "
    ),
    "AWS::IAM::ManagedPolicy": _actions(
        "iam: AttachRolePolicy CreatePolicy CreatePolicyVersion DeletePolicy DeletePolicyVersion DetachRolePolicy "
        "GetPolicy GetPolicyVersion ListEntitiesForPolicy ListPolicyVersions "
    ),
    "AWS::IAM::Role": _actions(
        "iam: AttachRolePolicy CreateRole DeleteRole DeleteRolePermissionsBoundary DeleteRolePolicy "
        "DetachRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies "
        "PutRolePermissionsBoundary PutRolePolicy TagRole UntagRole UpdateAssumeRolePolicy UpdateRole "
        "UpdateRoleDescription "
    ),
    "AWS::IAM::RolePolicy": _actions("iam: DeleteRolePolicy GetRolePolicy PutRolePolicy "),
    "AWS::Lambda::Alias": _actions("lambda: CreateAlias DeleteAlias GetAlias UpdateAlias "),
    "AWS::Lambda::EventInvokeConfig": _actions(
        "lambda: DeleteFunctionEventInvokeConfig GetFunctionEventInvokeConfig PutFunctionEventInvokeConfig "
        "UpdateFunctionEventInvokeConfig "
    ),
    "AWS::Lambda::EventSourceMapping": _actions(
        "kms: Decrypt DescribeKey GenerateDataKey "
        "lambda: CreateEventSourceMapping DeleteEventSourceMapping GetEventSourceMapping ListTags TagResource "
        "UntagResource UpdateEventSourceMapping "
    ),
    "AWS::Lambda::Function": _actions(
        "ec2: DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets DescribeVpcs "
        "kms: CreateGrant Decrypt DescribeKey GenerateDataKey "
        "lambda: CreateFunction DeleteFunction DeleteFunctionConcurrency GetFunction GetFunctionRecursionConfig "
        "GetLayerVersion GetRuntimeManagementConfig PublishVersion PutFunctionConcurrency "
        "PutFunctionRecursionConfig PutRuntimeManagementConfig TagResource UntagResource UpdateFunctionCode "
        "UpdateFunctionConfiguration "
    ),
    "AWS::Lambda::LayerVersion": _actions("lambda: DeleteLayerVersion GetLayerVersion PublishLayerVersion "),
    "AWS::Lambda::Permission": _actions("lambda: AddPermission GetPolicy RemovePermission "),
    "AWS::Lambda::Version": _actions(
        "lambda: DeleteFunction GetFunctionConfiguration GetRuntimeManagementConfig ListVersionsByFunction "
        "PublishVersion PutRuntimeManagementConfig "
    ),
    "AWS::Logs::LogGroup": _actions(
        "logs: AssociateKmsKey CreateLogDelivery CreateLogGroup DeleteLogGroup DeleteResourcePolicy "
        "DeleteRetentionPolicy DescribeLogGroups DescribeResourcePolicies DisassociateKmsKey ListTagsForResource "
        "PutLogGroupDeletionProtection PutResourcePolicy PutRetentionPolicy TagResource UntagResource "
    ),
    "AWS::S3::Bucket": _actions(
        "s3: CreateBucket DeleteBucket GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAbac "
        "GetBucketAcl GetBucketCORS GetBucketLogging GetBucketMetadataTableConfiguration GetBucketNotification "
        "GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPublicAccessBlock GetBucketTagging "
        "GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration GetIntelligentTieringConfiguration "
        "GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration GetReplicationConfiguration "
        "ListTagsForResource PutBucketNotification PutBucketPublicAccessBlock PutBucketTagging PutBucketVersioning "
        "PutEncryptionConfiguration PutLifecycleConfiguration TagResource UntagResource "
    ),
    "AWS::S3Express::BucketPolicy": _actions("s3express: DeleteBucketPolicy GetBucketPolicy PutBucketPolicy "),
    "AWS::S3Express::DirectoryBucket": _actions(
        "ec2: DescribeAvailabilityZones "
        "kms: Decrypt GenerateDataKey "
        "s3express: CreateBucket DeleteBucket GetEncryptionConfiguration GetLifecycleConfiguration "
        "ListAllMyDirectoryBuckets ListTagsForResource PutEncryptionConfiguration PutLifecycleConfiguration "
        "TagResource UntagResource "
    ),
    "AWS::SNS::Subscription": _actions(
        "iam: GetRole sns: GetSubscriptionAttributes SetSubscriptionAttributes Subscribe Unsubscribe "
    ),
    "AWS::SNS::Topic": _actions(
        "iam: GetRole "
        "sns: CreateTopic DeleteTopic GetTopicAttributes ListSubscriptionsByTopic ListTagsForResource "
        "SetTopicAttributes Subscribe TagResource Unsubscribe UntagResource "
    ),
    "AWS::SNS::TopicPolicy": _actions("sns: SetTopicAttributes "),
    "AWS::SQS::Queue": _actions(
        "sqs: CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags SetQueueAttributes TagQueue "
        "UntagQueue "
    ),
    "AWS::SQS::QueuePolicy": _actions("sqs: SetQueueAttributes "),
    "AWS::SSM::Parameter": _actions(
        "ssm: AddTagsToResource DeleteParameter GetParameters ListTagsForResource PutParameter RemoveTagsFromResource "
    ),
    "AWS::ServiceDiscovery::PrivateDnsNamespace": _actions(
        "ec2: DescribeRegions DescribeVpcs "
        "route53: AssociateVPCWithHostedZone CreateHostedZone DeleteHostedZone GetHostedZone ListHostedZonesByName "
        "servicediscovery: CreatePrivateDnsNamespace DeleteNamespace GetNamespace GetOperation ListTagsForResource "
        "TagResource UntagResource UpdatePrivateDnsNamespace "
    ),
    "AWS::ServiceDiscovery::Service": _actions(
        "servicediscovery: CreateService DeleteService DeleteServiceAttributes GetNamespace GetOperation "
        "GetService GetServiceAttributes ListServices ListTagsForResource TagResource UntagResource UpdateService "
        "UpdateServiceAttributes "
    ),
    "AWS::StepFunctions::StateMachine": _actions(
        "kms: Decrypt DescribeKey GenerateDataKey "
        "states: CreateStateMachine DeleteStateMachine DescribeStateMachine ListTagsForResource TagResource "
        "UntagResource UpdateStateMachine ValidateStateMachineDefinition "
    ),
}
